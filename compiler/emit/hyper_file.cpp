#include "emit/hyper_file.h"

#include <fmt/format.h>

#include "codegen/spec_numbers.h"
#include "emit/writer.h"

namespace hydrac::emit {

namespace {

// dims.h has the vocabulary already.
bool is_vocabulary(const driver::Compiled& compiled, const ir::SpecNumber& number) {
  const int64_t tokens = compiled.spec.model.vocab_size;
  return number.name == "classes" && tokens > 0 && number.value == static_cast<double>(tokens);
}

}  // namespace

SourceFile hyper_file(const driver::Compiled& compiled) {
  codegen::Names names;
  for (const program::Kernel& kernel : compiled.program.kernels)
    names.insert(kernel.names.begin(), kernel.names.end());
  Writer out;
  out.line("namespace hyper {");
  out.line("");
  for (const ir::SpecNumber& number : compiled.program.numbers) {
    if (!names.contains("hyper::" + number.name)) continue;
    const std::string constant = is_vocabulary(compiled, number)
                                     ? "inline constexpr std::int64_t classes = kVocabSize;"
                                     : codegen::number_constant(number);
    out.line(fmt::format("{}  // {}", constant, number.meaning));
  }
  out.line("");
  out.line("}  // namespace hyper");
  return {
      "The numbers of the spec that kernels compute with.", {"<cstdint>", "", "\"dims.h\""}, out.text(), ""};
}

}  // namespace hydrac::emit
