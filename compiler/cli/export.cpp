// `hydrac export RUN -o FOLDER [--push OWNER/NAME]`: the model of a checkpoint in Hugging Face's format,
// without training state.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/input/checkpoint_source.h"
#include "cli/input/model_folder.h"
#include "cli/verb.h"
#include "hub/hub.h"
#include "runtime/base/folder_links.h"
#include "runtime/base/quote.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"
#include "runtime/json/json_input.h"
#include "runtime/log/units.h"
#include "runtime/train/run/run_files.h"

namespace hydrac::cli {

namespace fs = std::filesystem;
using runtime::InputError;
using runtime::SafetensorsDtype;

namespace {

using Json = nlohmann::ordered_json;

// A tensor of the checkpoint in another format, a piece of it at a time in memory.
void write_converted(runtime::FileWriter& out, const runtime::SafetensorsReader& file,
                     const runtime::TensorEntry& tensor, SafetensorsDtype dtype) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::vector<float> values;
  for (int64_t begin = 0; begin < tensor.elements(); begin += kPiece) {
    values.resize(static_cast<size_t>(std::min(kPiece, tensor.elements() - begin)));
    runtime::decode_floats(file.bytes(tensor).data() + begin * runtime::dtype_bytes(tensor.dtype),
                           tensor.dtype, values);
    write_numbers(out, values, dtype, file.label(), tensor.name);
  }
}

void add_weights(const NewFolder& folder, const fs::path& from, const std::optional<WeightFormat>& format) {
  const runtime::SafetensorsReader file(from);
  std::vector<runtime::TensorToWrite> tensors;
  for (const runtime::TensorEntry& tensor : file.tensors()) {
    const SafetensorsDtype dtype = format ? format->dtype : tensor.dtype;
    tensors.push_back({tensor.name, dtype, tensor.shape, [&file, &tensor, dtype](runtime::FileWriter& out) {
                         if (dtype == tensor.dtype) return out.write(file.bytes(tensor));
                         write_converted(out, file, tensor, dtype);
                       }});
  }
  folder.add(kWeightsFile, [&](runtime::FileWriter& out) { write_safetensors(out, std::move(tensors)); });
}

// Whatever keeps it from being pushed is known before anything is written.
void create(const std::string& repository) {
  try {
    hub::create(repository);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--push {}: {}", repository, error.what()));
  }
}

void upload(const std::string& folder, const std::string& repository, bool quiet) {
  try {
    const std::string address = hub::upload(folder, repository);
    if (!quiet) fmt::print("{}: {}\n", folder, address);
  } catch (const runtime::RunError& error) {
    throw runtime::RunError(
        fmt::format("{} is written, but --push {}: {}", folder, repository, error.what()));
  }
}

}  // namespace

int export_verb(const Arguments& arguments) {
  const auto [from, to] = from_to(arguments, "export");
  const std::optional<WeightFormat> format = format_option(arguments);
  const auto [run, checkpoint] = checkpoint_source(from);
  runtime::require_own_files(checkpoint);
  if (fs::exists(checkpoint / "adapter_config.json"))
    throw InputError(
        fmt::format("{} is an adapter, which PEFT loads as it is; `hydrac merge {} -o {}` makes a "
                    "whole model of it",
                    checkpoint.string(), runtime::shell_quoted(from), runtime::shell_quoted(to.string())));
  const fs::path config_file = checkpoint / "config.json";
  const std::string config_text = runtime::read_file(config_file);
  if (!runtime::parse_json(config_text, config_file.string()).is_object())
    throw InputError(fmt::format("{} is no JSON object", config_file.string()));
  Json config = Json::parse(config_text);
  if (config["model_type"] == "hydrac")
    throw InputError(fmt::format("{}: transformers has no name for this model; `hydrac check {}` says why",
                                 checkpoint.string(),
                                 runtime::shell_quoted(runtime::spec_path(run).string())));
  if (format) config["torch_dtype"] = format->torch;
  const std::optional<std::string> repository = arguments.value("--push");
  if (repository) create(*repository);
  const NewFolder folder(to);
  add_weights(folder, checkpoint / kWeightsFile, format);
  folder.add("config.json", [&](runtime::FileWriter& out) { out.write(config.dump(2) + "\n"); });
  add_other_files(folder, checkpoint, {kWeightsFile, "config.json"});
  folder.publish();
  if (!arguments.has("--quiet"))
    fmt::print("{}: {} of weights in {}, of {}\n", folder.name().string(),
               runtime::human_bytes(fs::file_size(folder.name() / kWeightsFile)),
               config["torch_dtype"].is_string() ? config["torch_dtype"].get<std::string>() : "their types",
               checkpoint.string());
  if (repository) upload(folder.name().string(), *repository, arguments.has("--quiet"));
  return kFine;
}

}  // namespace hydrac::cli
