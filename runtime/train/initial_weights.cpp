#include "runtime/train/initial_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/base/quote.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/data/hash.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/json/json_input.h"
#include "runtime/train/program_tensors.h"

namespace hydrac::runtime {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHead = "lm_head.weight";
constexpr auto kEmbeddings =
    std::to_array<std::string_view>({"model.embed_tokens.weight", "transformer.wte.weight"});
constexpr auto kPrefixes = std::to_array<std::string_view>({"model.", "transformer."});
// Text parts of models that read images too.
constexpr auto kTextParts = std::to_array<std::string_view>({"language_model.", "text_model."});
constexpr std::string_view kEncoderPrefix = "bert.";

bool is_of_text_part(std::string_view name) {
  return std::ranges::any_of(
      kTextParts, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

// Buffers of transformers' modules that older versions saved: attention's mask, what it fills in, rope.
bool is_constant(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".attention.bias") || name.ends_with(".attention.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

// A few of the problems of one kind, so that a wrong folder does not fill the screen.
void append(std::string& text, std::string_view what, const std::vector<std::string>& problems) {
  constexpr size_t kMost = 5;
  if (problems.empty()) return;
  text += fmt::format("\n  {}: ", what);
  const std::vector<std::string> first(
      problems.begin(), problems.begin() + static_cast<ptrdiff_t>(std::min(kMost, problems.size())));
  text += fmt::format("{}", fmt::join(first, ", "));
  if (problems.size() > kMost) text += fmt::format(" and {} more", problems.size() - kMost);
}

// Why the file's tensor cannot become the parameter; empty where it can.
std::string misfit(const TensorEntry& tensor, const NamedTensor& parameter) {
  if (tensor.shape != parameter.shape)
    return fmt::format("{} is [{}] in the file and [{}] in the model", in_quotes(tensor.name),
                       fmt::join(tensor.shape, ", "), fmt::join(parameter.shape, ", "));
  if (!is_float(tensor.dtype))
    return fmt::format("{} is {}, which is neither F32, F64, BF16 nor F16", in_quotes(tensor.name),
                       dtype_name(tensor.dtype));
  return "";
}

}  // namespace

std::vector<NamedTensor> WeightFiles::filled(StepProgram& program) {
  std::vector<NamedTensor> parameters = program.tensors().base;
  return parameters.empty() ? program.tensors().parameters : parameters;
}

WeightFiles::WeightFiles(const fs::path& path) : label_(path.string()) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    add(path);
    return;
  }
  const fs::path whole = path / "model.safetensors", index = path / "model.safetensors.index.json";
  if (fs::exists(whole, ignored)) {
    add(whole);
  } else if (fs::exists(index, ignored)) {
    add_index(path, index);
  } else {
    const bool pickled = fs::exists(path / "pytorch_model.bin", ignored) ||
                         fs::exists(path / "pytorch_model.bin.index.json", ignored);
    throw InputError(fmt::format(
        "{}: there is neither model.safetensors nor model.safetensors.index.json{}", label_,
        pickled ? "; pytorch_model.bin can run code as it is read: let transformers read and save it "
                  "(save_pretrained)"
                : ""));
  }
}

void WeightFiles::add(const fs::path& file) {
  files_.push_back(std::make_unique<SafetensorsReader>(file));
  const SafetensorsReader& reader = *files_.back();
  for (const TensorEntry& tensor : reader.tensors()) {
    const auto [other, is_new] = tensors_.try_emplace(tensor.name, Found{&reader, &tensor});
    if (!is_new)
      throw InputError(fmt::format("{}: the tensor {} is in {} too", reader.label(), in_quotes(tensor.name),
                                   other->second.file->label()));
  }
}

void WeightFiles::add_index(const fs::path& folder, const fs::path& index) {
  const std::string shown_as = index.string();
  const nlohmann::json root = parse_json(read_file(index), shown_as);
  if (!root.is_object()) throw InputError(fmt::format("{}: it is not a JSON object", shown_as));
  const nlohmann::json& places =
      json_container(root, "weight_map", nlohmann::json::value_t::object, shown_as);
  std::set<std::string> names;
  for (const auto& [tensor, file] : places.items()) {
    // A name with a path in it would lead out of the folder.
    if (!file.is_string() || !is_plain_name(file.get<std::string>()))
      throw InputError(fmt::format("{}: the file of {} is no plain file name", shown_as, in_quotes(tensor)));
    names.insert(file.get<std::string>());
  }
  if (names.empty()) throw InputError(fmt::format("{}: \"weight_map\" is empty", shown_as));
  for (const std::string& name : names) add(folder / name);
  for (const auto& [tensor, file] : places.items()) {
    const auto found = tensors_.find(tensor);
    if (found == tensors_.end() || found->second.file->label() != (folder / file.get<std::string>()).string())
      throw InputError(
          fmt::format("{}: {} has no tensor {}", shown_as, file.get<std::string>(), in_quotes(tensor)));
  }
}

WeightFiles::Found WeightFiles::find(std::string_view name) const {
  if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second;
  for (const std::string_view prefix : kPrefixes) {
    if (!name.starts_with(prefix)) continue;
    if (const auto found = tensors_.find(name.substr(prefix.size())); found != tensors_.end())
      return found->second;
  }
  constexpr std::string_view kModel = "model.";
  for (const std::string_view part : kTextParts) {
    if (const auto found = tensors_.find(std::string(part).append(name)); found != tensors_.end())
      return found->second;
    if (!name.starts_with(kModel)) continue;
    const std::string inside = std::string(kModel).append(part).append(name.substr(kModel.size()));
    if (const auto found = tensors_.find(inside); found != tensors_.end()) return found->second;
  }
  return {};
}

void WeightFiles::check(const std::vector<NamedTensor>& parameters) const {
  std::vector<std::string> missing, misfits, surplus;
  std::set<const TensorEntry*> used;
  for (const NamedTensor& parameter : parameters) {
    const Found found = find(parameter.name);
    if (found.tensor == nullptr) {
      missing.push_back(in_quotes(parameter.name));
      continue;
    }
    used.insert(found.tensor);
    if (std::string why = misfit(*found.tensor, parameter); !why.empty()) misfits.push_back(std::move(why));
  }
  const bool has_other_parts =
      std::ranges::any_of(used, [](const TensorEntry* tensor) { return is_of_text_part(tensor->name); });
  std::string hint;
  if (std::ranges::find(missing, in_quotes(kHead)) != missing.end())
    hint = "\nwith model.tie_word_embeddings: true, the head is the token embedding";
  for (const auto& [name, found] : tensors_) {
    if (used.contains(found.tensor) || is_constant(name) || adds_nothing(*found.file, *found.tensor))
      continue;
    if (name == kHead) {
      const auto embedding = std::ranges::find_if(
          kEmbeddings, [&](std::string_view wanted) { return used.contains(find(wanted).tensor); });
      if (embedding != kEmbeddings.end()) {
        const Found tied = find(*embedding);
        if (std::ranges::equal(found.file->bytes(*found.tensor), tied.file->bytes(*tied.tensor))) continue;
        hint = "\nthe head is not the token embedding in this file: model.tie_word_embeddings is false there";
      }
    }
    if (has_other_parts && name != kHead && !is_of_text_part(name)) continue;
    surplus.push_back(in_quotes(name));
  }
  std::string problems;
  append(problems, "missing", missing);
  append(problems, "of another shape or type", misfits);
  append(problems, "not of this model", surplus);
  if (!problems.empty())
    throw InputError(fmt::format("{}: these are not the weights of the model:{}{}", label_, problems, hint));
}

void WeightFiles::fill(StepProgram& program) const {
  check(program);
  for (const NamedTensor& parameter : filled(program)) {
    const Found found = find(parameter.name);
    upload_tensor(*found.file, *found.tensor, program, parameter);
  }
}

WeightFiles::Found WeightFiles::find_of_encoder(const std::string& name) const {
  const Found found = find(name);
  return found.tensor ? found : find(std::string(kEncoderPrefix) + name);
}

void WeightFiles::check_encoder(StepProgram& program) const {
  std::vector<std::string> missing, misfits;
  for (const NamedTensor& parameter : program.tensors().encoder) {
    const Found found = find_of_encoder(parameter.name);
    if (found.tensor == nullptr)
      missing.push_back(in_quotes(parameter.name));
    else if (std::string why = misfit(*found.tensor, parameter); !why.empty())
      misfits.push_back(std::move(why));
  }
  std::string problems;
  append(problems, "missing", missing);
  append(problems, "of another shape or type", misfits);
  if (!problems.empty())
    throw InputError(fmt::format("{}: these are not the weights of its config.json:{}", label_, problems));
}

void WeightFiles::fill_encoder(StepProgram& program) const {
  check_encoder(program);
  for (const NamedTensor& parameter : program.tensors().encoder) {
    const Found found = find_of_encoder(parameter.name);
    upload_tensor(*found.file, *found.tensor, program, parameter);
  }
}

void WeightFiles::start(StepProgram& program) const {
  program.start(filled(program));
  fill(program);
}

std::string WeightFiles::fingerprint(Reads reads) const {
  const size_t most = reads == Reads::everything ? SIZE_MAX : 4096;
  Hash64 hash;
  for (const auto& [name, found] : tensors_) {
    hash.add(name).add(dtype_name(found.tensor->dtype));
    for (const int64_t size : found.tensor->shape) hash.add(static_cast<uint64_t>(size));
    const std::span<const std::byte> bytes = found.file->bytes(*found.tensor);
    hash.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), std::min(most, bytes.size())));
  }
  return fmt::format("{:016x}", hash.value());
}

SafetensorsDtype WeightFiles::dtype() const {
  std::set<SafetensorsDtype> types;
  for (const auto& [name, found] : tensors_) types.insert(found.tensor->dtype);
  return types.size() == 1 ? *types.begin() : SafetensorsDtype::f32;
}

std::string WeightFiles::description() const {
  std::set<std::string_view> types;
  for (const auto& [name, found] : tensors_) types.insert(dtype_name(found.tensor->dtype));
  return fmt::format("{}: {} tensors of {} in {} file{}", label_, tensors_.size(), fmt::join(types, ", "),
                     files_.size(), files_.size() == 1 ? "" : "s");
}

}  // namespace hydrac::runtime
