// Folders as Hugging Face publishes models, made of a run's checkpoint: what `export` and `merge` share.
#pragma once
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "cli/input/arguments.h"
#include "cli/output/new_folder.h"
#include "runtime/checkpoint/safetensors.h"

namespace hydrac::cli {

inline constexpr const char* kWeightsFile = "model.safetensors";

// How weights are stored.
struct WeightFormat {
  std::string_view word, torch;  // of --dtype, of config.json
  runtime::SafetensorsDtype dtype;
};
WeightFormat format_of(runtime::SafetensorsDtype dtype);  // fp32 for any but 16-bit floating-point numbers
// The format that --dtype names. InputError when it is no such word.
std::optional<WeightFormat> format_option(const Arguments& arguments);

// The verb's one positional argument and --output, where nothing is yet. InputError otherwise.
struct FromTo {
  std::string from;
  std::filesystem::path to;
};
FromTo from_to(const Arguments& arguments, std::string_view verb);

// Writes numbers in a format, rounded to nearest even. RunError that names `file` and `tensor` if a number
// exceeds fp16's range.
void write_numbers(runtime::FileWriter& out, std::span<const float> numbers, runtime::SafetensorsDtype dtype,
                   const std::string& file, const std::string& tensor);

// Copies the checkpoint's files but those in `except` and those of the run alone: the optimizer's, its state.
void add_other_files(const NewFolder& folder, const std::filesystem::path& checkpoint,
                     const std::set<std::string>& except);

}  // namespace hydrac::cli
