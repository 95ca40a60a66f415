// `hydrac export RUN -o FOLDER`: the model of a checkpoint as Hugging Face publishes models, without what
// only training needs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/checkpoint_source.h"
#include "cli/new_folder.h"
#include "cli/verb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/quote.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"
#include "runtime/log/units.h"
#include "runtime/train/run_files.h"

namespace hydrac::cli {

namespace fs = std::filesystem;
using runtime::InputError;
using runtime::SafetensorsDtype;

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kWeights = "model.safetensors";

// What a checkpoint has for a resumed run.
constexpr auto kOfTheRun = std::to_array<std::string_view>(
    {"optimizer.safetensors", "state.json", "choices.json", runtime::manifest_name});

struct Format {
  std::string_view word, torch;
  SafetensorsDtype dtype;
};
constexpr auto kFormats = std::to_array<Format>({{"fp32", "float32", SafetensorsDtype::f32},
                                                 {"bf16", "bfloat16", SafetensorsDtype::bf16},
                                                 {"fp16", "float16", SafetensorsDtype::f16}});

std::optional<Format> format_option(const Arguments& arguments) {
  const std::optional<std::string> word = arguments.value("--dtype");
  if (!word) return std::nullopt;
  for (const Format& format : kFormats) {
    if (format.word == *word) return format;
  }
  throw InputError(fmt::format("--dtype takes fp32, bf16 or fp16, not \"{}\"", *word));
}

// A tensor of the checkpoint in another format, a piece of it at a time in memory.
void write_converted(runtime::FileWriter& out, const runtime::SafetensorsReader& file,
                     const runtime::TensorEntry& tensor, SafetensorsDtype dtype) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::vector<float> values;
  std::vector<std::byte> bytes;
  for (int64_t begin = 0; begin < tensor.elements(); begin += kPiece) {
    values.resize(static_cast<size_t>(std::min(kPiece, tensor.elements() - begin)));
    runtime::decode_floats(file.bytes(tensor).data() + begin * runtime::dtype_bytes(tensor.dtype),
                           tensor.dtype, values);
    for (const float value : values) {
      if (dtype == SafetensorsDtype::f16 && std::abs(value) >= 65520)
        throw runtime::RunError(fmt::format("{}: {} has {}, which fp16 cannot hold: --dtype bf16 can",
                                            file.label(), runtime::in_quotes(tensor.name), value));
    }
    bytes.resize(values.size() * static_cast<size_t>(runtime::dtype_bytes(dtype)));
    runtime::encode_floats(values, dtype, bytes.data());
    out.write(bytes);
  }
}

void add_weights(const NewFolder& folder, const fs::path& from, const std::optional<Format>& format) {
  const runtime::SafetensorsReader file(from);
  std::vector<runtime::TensorToWrite> tensors;
  for (const runtime::TensorEntry& tensor : file.tensors()) {
    const SafetensorsDtype dtype = format ? format->dtype : tensor.dtype;
    tensors.push_back({tensor.name, dtype, tensor.shape, [&file, &tensor, dtype](runtime::FileWriter& out) {
                         if (dtype == tensor.dtype) return out.write(file.bytes(tensor));
                         write_converted(out, file, tensor, dtype);
                       }});
  }
  folder.add(kWeights, [&](runtime::FileWriter& out) { write_safetensors(out, std::move(tensors)); });
}

}  // namespace

int export_verb(const Arguments& arguments) {
  if (arguments.positional.empty()) throw InputError("which run? Give its folder");
  if (arguments.positional.size() > 1)
    throw InputError(fmt::format("\"{}\" is one argument too many", arguments.positional[1]));
  const std::optional<std::string> output = arguments.value("--output");
  if (!output) throw InputError("where to? Give -o FOLDER");
  const std::optional<Format> format = format_option(arguments);
  const auto [run, checkpoint] = checkpoint_source(arguments.positional[0]);
  Json config = Json::parse(runtime::read_file(checkpoint / "config.json"));
  if (config["model_type"] == "hydrac")
    throw InputError(fmt::format("{}: transformers has no name for this model; `hydrac check {}` says why",
                                 checkpoint.string(), runtime::spec_path(run).string()));
  if (format) config["torch_dtype"] = format->torch;
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder_name(*output), error)))
    throw InputError(fmt::format("{} exists, and export overwrites nothing: name another folder",
                                 folder_name(*output).string()));
  const NewFolder folder(*output);
  add_weights(folder, checkpoint / kWeights, format);
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    const std::string name = entry.path().filename();
    if (name == kWeights || std::ranges::find(kOfTheRun, name) != kOfTheRun.end()) continue;
    const std::string text = name == "config.json" ? config.dump(2) + "\n" : runtime::read_file(entry.path());
    folder.add(name, [&](runtime::FileWriter& out) { out.write(text); });
  }
  folder.publish();
  if (!arguments.has("--quiet"))
    fmt::print("{}: {} of weights in {}, of {}\n", folder.name().string(),
               runtime::human_bytes(fs::file_size(folder.name() / kWeights)),
               format ? format->torch : config.value("torch_dtype", ""), checkpoint.string());
  return kFine;
}

}  // namespace hydrac::cli
