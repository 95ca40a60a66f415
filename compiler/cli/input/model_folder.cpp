#include "cli/input/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "runtime/base/quote.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"

namespace hydrac::cli {

namespace fs = std::filesystem;
using runtime::InputError;
using runtime::SafetensorsDtype;

namespace {

constexpr auto kFormats = std::to_array<WeightFormat>({{"fp32", "float32", SafetensorsDtype::f32},
                                                       {"bf16", "bfloat16", SafetensorsDtype::bf16},
                                                       {"fp16", "float16", SafetensorsDtype::f16}});

// Files of a checkpoint for a resumed run.
constexpr auto kOfTheRun = std::to_array<std::string_view>(
    {"optimizer.safetensors", "state.json", "choices.json", runtime::manifest_name});

}  // namespace

WeightFormat format_of(SafetensorsDtype dtype) {
  const auto found = std::ranges::find(kFormats, dtype, &WeightFormat::dtype);
  return found == kFormats.end() ? kFormats[0] : *found;
}

std::optional<WeightFormat> format_option(const Arguments& arguments) {
  const std::optional<std::string> word = arguments.value("--dtype");
  if (!word) return std::nullopt;
  for (const WeightFormat& format : kFormats) {
    if (format.word == *word) return format;
  }
  throw InputError(fmt::format("--dtype takes fp32, bf16 or fp16, not \"{}\"", *word));
}

FromTo from_to(const Arguments& arguments, std::string_view verb) {
  if (arguments.positional.empty()) throw InputError("which run? Give its folder");
  if (arguments.positional.size() > 1)
    throw InputError(fmt::format("\"{}\" is one argument too many", arguments.positional[1]));
  if (!arguments.overrides.empty())
    throw InputError(fmt::format("\"{}\" is one argument too many: {} takes a run as it was trained",
                                 arguments.overrides[0], verb));
  const std::optional<std::string> output = arguments.value("--output");
  if (!output) throw InputError("where to? Give -o FOLDER");
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder_name(*output), error)))
    throw InputError(fmt::format("{} exists, and {} overwrites nothing: name another folder",
                                 folder_name(*output).string(), verb));
  return {arguments.positional[0], *output};
}

void write_numbers(runtime::FileWriter& out, std::span<const float> numbers, SafetensorsDtype dtype,
                   const std::string& file, const std::string& tensor) {
  constexpr float kBeyondF16 = 65520;
  if (dtype == SafetensorsDtype::f16) {
    const auto large =
        std::ranges::find_if(numbers, [](float number) { return std::abs(number) >= kBeyondF16; });
    if (large != numbers.end())
      throw runtime::RunError(fmt::format("{}: {} has {}, which fp16 cannot hold: --dtype bf16 can", file,
                                          runtime::in_quotes(tensor), *large));
  }
  std::vector<std::byte> bytes(numbers.size() * static_cast<size_t>(runtime::dtype_bytes(dtype)));
  runtime::encode_floats(numbers, dtype, bytes.data());
  out.write(bytes);
}

void add_other_files(const NewFolder& folder, const fs::path& checkpoint,
                     const std::set<std::string>& except) {
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    const std::string name = entry.path().filename();
    if (except.contains(name) || std::ranges::find(kOfTheRun, name) != kOfTheRun.end()) continue;
    const std::string text = runtime::read_file(entry.path());
    folder.add(name, [&](runtime::FileWriter& out) { out.write(text); });
  }
}

}  // namespace hydrac::cli
