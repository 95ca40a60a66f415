#include "cli/output/program_memory.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

#include "cli/input/spec_input.h"
#include "cli/verb.h"
#include "runtime/error.h"

namespace hydrac::cli {

int64_t memory_option(const Arguments& arguments) {
  const std::optional<std::string> text = arguments.value("--memory");
  if (!text) return 0;
  constexpr double most = 1 << 20;  // GiB; keeps the bytes in an int64
  double gib = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), gib);
  if (error != std::errc() || end != text->data() + text->size() || !(gib > 0 && gib <= most))
    throw runtime::InputError(fmt::format("--memory: \"{}\" is no number of GiB", *text));
  return static_cast<int64_t>(gib * 0x1p30);
}

void require_fit(const std::optional<diag::Diagnostic>& problem) {
  if (!problem) return;
  diag::Diagnostics diagnostics;
  diagnostics.report(problem->kind, problem->where, problem->message, problem->suggestion);
  print_found_late(diagnostics);
  throw Reported{kBadInput};
}

void refuse_sizes(const spec::Spec& spec) {
  diag::Location place;
  for (const char* key : {"train.micro_batch_size", "train.global_batch_size", "train.global_batch_tokens"})
    if (!place.known()) place = spec.where(key);
  require_fit(diag::Diagnostic{diag::Kind::out_of_memory, place,
                               "the program needs more bytes than 64 bits count",
                               "a smaller model, a shorter train.sequence_len or a smaller batch may fit"});
  throw std::logic_error("a problem that is none");
}

}  // namespace hydrac::cli
