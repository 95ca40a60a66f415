// `hydrac merge RUN -o FOLDER`: the model of an adapter's run with the adapter merged into its matrices, W +
// scale * B A, in Hugging Face's format. The result is read again and must compute the same as base and
// adapter.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <vector>

#include "cli/build_program.h"
#include "cli/generation/inference.h"
#include "cli/input/checkpoint_source.h"
#include "cli/input/model_folder.h"
#include "cli/input/spec_input.h"
#include "cli/output/checkpoint_files.h"
#include "cli/verb.h"
#include "models/adapter.h"
#include "models/parameters.h"
#include "runtime/base/folder_links.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"
#include "runtime/log/units.h"
#include "runtime/text/tokenizer/tokenizers.h"
#include "runtime/train/generation/next_logits.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/program_tensors.h"
#include "runtime/train/run/run_files.h"
#include "spec/batch.h"
#include "spec/hugging_face/hf_config.h"

namespace hydrac::cli {

namespace fs = std::filesystem;
using runtime::InputError;
using runtime::NamedTensor;
using runtime::SafetensorsDtype;

namespace {

std::vector<float> numbers_of(runtime::StepProgram& program, const NamedTensor& tensor) {
  const std::vector<std::byte> bytes = runtime::tensor_bytes(program, tensor);
  std::vector<float> numbers(bytes.size() / static_cast<size_t>(runtime::dtype_bytes(tensor.dtype)));
  runtime::decode_floats(bytes.data(), tensor.dtype, numbers);
  return numbers;
}

// weight [out, in] (`transposed`: [in, out]) += scale * b [out, r] a [r, in]
void add_product(std::span<float> weight, std::span<const float> a, std::span<const float> b, int64_t r,
                 float scale, bool transposed) {
  const auto in = static_cast<int64_t>(a.size()) / r, out = static_cast<int64_t>(b.size()) / r;
#pragma omp parallel for schedule(static)
  for (int64_t o = 0; o < out; ++o) {
    std::vector<float> row(static_cast<size_t>(in));
    for (int64_t k = 0; k < r; ++k) {
      for (int64_t i = 0; i < in; ++i) row[i] += b[o * r + k] * a[k * in + i];
    }
    for (int64_t i = 0; i < in; ++i) weight[transposed ? i * out + o : o * in + i] += scale * row[i];
  }
}

// Base and adapter of a program, tensor by tensor as one model's.
class Merged {
 public:
  Merged(runtime::StepProgram& program, const spec::Spec& spec)
      : program_(program),
        r_(spec.adapter.r),
        scale_(static_cast<float>(models::adapter_scale(spec))),
        zeros_(models::checkpoint_zeros(spec)) {
    for (NamedTensor& tensor : program.tensors().parameters) adapters_[tensor.name] = std::move(tensor);
  }

  std::vector<runtime::TensorToWrite> tensors(SafetensorsDtype dtype, const std::string& file) {
    std::vector<runtime::TensorToWrite> list;
    for (const NamedTensor& base : program_.tensors().base)
      list.push_back({base.name, dtype, base.shape, [this, base, dtype, file](runtime::FileWriter& out) {
                        write_numbers(out, merged(base), dtype, file, base.name);
                      }});
    for (const models::ZeroTensor& zeros : zeros_) {
      list.push_back({zeros.name, dtype, zeros.shape, [zeros, dtype, file](runtime::FileWriter& out) {
                        int64_t count = 1;
                        for (const int64_t size : zeros.shape) count *= size;
                        write_numbers(out, std::vector<float>(static_cast<size_t>(count)), dtype, file,
                                      zeros.name);
                      }});
    }
    return list;
  }

  // From here on the program is the base alone.
  void remove_adapter() {
    for (const auto& [name, tensor] : adapters_)
      program_.upload(tensor, std::vector<std::byte>(static_cast<size_t>(tensor.bytes())));
  }

 private:
  std::vector<float> merged(const NamedTensor& base) {
    std::vector<float> weight = numbers_of(program_, base);
    const std::string module = "base_model.model." + base.name.substr(0, base.name.rfind('.'));
    const auto a = adapters_.find(module + ".lora_A.weight"), b = adapters_.find(module + ".lora_B.weight");
    if (a != adapters_.end() && base.name.ends_with(".weight"))
      add_product(weight, numbers_of(program_, a->second), numbers_of(program_, b->second), r_, scale_,
                  base.transposed);
    return weight;
  }

  runtime::StepProgram& program_;
  const int64_t r_;
  const float scale_;
  const std::vector<models::ZeroTensor> zeros_;
  std::map<std::string, NamedTensor> adapters_;
};

using Logits = std::vector<std::vector<float>>;

// Logits after a few random prompts of different lengths.
Logits logits_of(runtime::StepProgram& program, int64_t vocab) {
  std::mt19937 random(1);
  Logits logits;
  for (int64_t length : {1, 5, 17, 64}) {
    length = std::min(length, program.facts().context_length);
    std::vector<int32_t> prompt(static_cast<size_t>(length));
    for (int32_t& id : prompt) id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab));
    const std::span<const float> next = runtime::NextLogits(program).next_logits(prompt, length - 1);
    logits.emplace_back(next.begin(), next.end());
  }
  return logits;
}

double greatest(const Logits& x, const Logits& y) {
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < x[i].size(); ++j)
      most = std::max(most, std::abs(static_cast<double>(x[i][j]) - static_cast<double>(y[i][j])));
  }
  return most;
}

double greatest(const Logits& x) {
  double most = 0;
  for (const std::vector<float>& logits : x) {
    for (const float logit : logits) most = std::max(most, static_cast<double>(std::abs(logit)));
  }
  return most;
}

// Allowed rounding of logits, of the greatest of them: weights and activations are rounded in every layer.
double rounding_of(SafetensorsDtype stored, spec::Precision computed) {
  const double storage = stored == SafetensorsDtype::bf16  ? 0.06
                         : stored == SafetensorsDtype::f16 ? 0.008
                                                           : 1e-4;
  switch (computed) {
    case spec::Precision::fp8:
    case spec::Precision::bf16:
      return std::max(storage, 0.06);
    case spec::Precision::fp16:
    case spec::Precision::tf32:
      return std::max(storage, 0.008);
    case spec::Precision::fp32:
      return storage;
  }
  return storage;
}

struct Comparison {
  double difference = 0;  // between the merged model's logits and those of base and adapter
  double change = 0;      // between those with the adapter and those without
  double largest = 0;     // logit
};

// RunError where rounding does not explain the difference, or where it is most of what was trained.
void require_same_model(const Comparison& logits, const spec::Spec& spec, const WeightFormat& format) {
  const spec::Precision computed = spec.optimizations.precision;
  const std::string found = fmt::format(
      "the merged model's logits differ by up to {:.2g} from those of base and adapter", logits.difference);
  if (!(logits.difference <= rounding_of(format.dtype, computed) * logits.largest))
    throw runtime::RunError(fmt::format(
        "{}, of up to {:.2g}: more than rounding explains; nothing is written", found, logits.largest));
  const double noise = rounding_of(SafetensorsDtype::f32, computed) * logits.largest;
  if (format.dtype != SafetensorsDtype::f32 && logits.difference > std::max(logits.change / 2, noise))
    throw runtime::RunError(
        fmt::format("{}, and the adapter changes them by up to {:.2g}: {} rounds away what was trained; "
                    "nothing is written, "
                    "--dtype fp32 keeps it",
                    found, logits.change, format.word));
}

struct Source {
  fs::path run, checkpoint;
  spec::Spec spec;  // the run's, complete
};

Source open_source(const std::string& from) {
  Source source;
  const CheckpointSource found = checkpoint_source(from);
  source.run = found.run, source.checkpoint = found.checkpoint;
  runtime::require_own_files(source.checkpoint);
  if (!fs::exists(source.checkpoint / "adapter_config.json"))
    throw InputError(
        fmt::format("{} is no adapter: `hydrac export` writes its model", source.checkpoint.string()));
  if (!fs::exists(source.checkpoint / "tokenizer.json"))
    throw InputError(fmt::format("{} is no language model, and only those are merged", from));
  Arguments arguments;
  arguments.positional = {runtime::spec_path(source.run).string()};
  // The run may lie anywhere, and its cores and its encoder are those of the machine that trained.
  arguments.overrides = {"output.dir=" + yaml_quoted(source.run.string()), "train.cpu_affinity=none",
                         "objective.embed=model"};
  std::optional<spec::Spec> spec = load_of_run(arguments);
  if (!spec) throw Reported{kBadInput};
  const auto tokenizer = runtime::load_tokenizer(source.checkpoint / "tokenizer.json");
  complete_from_data(*spec, tokenizer.get());
  spec->objective.name = spec::ObjectiveName::none;  // nothing is trained
  spec::train_in_one_process(*spec);
  source.spec = std::move(*spec);
  return source;
}

// Writes the merged weights. Returns the logits with the adapter, and their distance from those without it.
std::pair<Logits, Comparison> write_merged(const NewFolder& folder, const Source& source,
                                           SafetensorsDtype dtype) {
  const BuiltProgram built = build_program(source.spec);
  runtime::StepProgram& program = built.program->steps();
  fill_from_checkpoint(program, source.spec, source.checkpoint);
  Merged merged(program, source.spec);
  folder.add(kWeightsFile, [&](runtime::FileWriter& out) {
    write_safetensors(out, merged.tensors(dtype, (folder.name() / kWeightsFile).string()));
  });
  Logits adapted = logits_of(program, source.spec.model.vocab_size);
  merged.remove_adapter();
  const Logits base = logits_of(program, source.spec.model.vocab_size);
  return {adapted, {.change = greatest(adapted, base), .largest = greatest(adapted)}};
}

Logits logits_of_file(spec::Spec spec, const fs::path& weights) {
  freeze_for_inference(spec);
  const BuiltProgram built = build_program(spec);
  runtime::StepProgram& program = built.program->steps();
  runtime::WeightFiles(weights).start(program);
  return logits_of(program, spec.model.vocab_size);
}

WeightFormat format_of_base(const spec::Spec& spec) {
  return format_of(spec::begins_with_weights(spec) ? runtime::WeightFiles(spec.model.weights).dtype()
                                                   : SafetensorsDtype::f32);
}

}  // namespace

int merge_verb(const Arguments& arguments) {
  const auto [from, to] = from_to(arguments, "merge");
  const std::optional<WeightFormat> asked = format_option(arguments);
  const Source source = open_source(from);
  const WeightFormat format = asked ? *asked : format_of_base(source.spec);
  spec::Spec plain = source.spec;
  plain.adapter.type = spec::AdapterType::none;
  plain.model.weights = "none";

  const NewFolder folder(to);
  auto [adapted, comparison] = write_merged(folder, source, format.dtype);
  comparison.difference = greatest(adapted, logits_of_file(plain, folder.unfinished() / kWeightsFile));
  require_same_model(comparison, plain, format);
  auto config = nlohmann::ordered_json::parse(spec::config_json(plain));
  config["torch_dtype"] = format.torch;
  folder.add("config.json", [&](runtime::FileWriter& out) { out.write(config.dump(2) + "\n"); });
  add_other_files(folder, source.checkpoint, {"adapter_config.json", "adapter_model.safetensors"});
  folder.publish();
  if (!arguments.has("--quiet"))
    fmt::print(
        "{}: {} of weights in {}, of {}\nits logits differ by up to {:.2g} from those of base and adapter, "
        "which "
        "changes them by up to {:.2g}\n",
        folder.name().string(), runtime::human_bytes(fs::file_size(folder.name() / kWeightsFile)),
        format.torch, source.checkpoint.string(), comparison.difference, comparison.change);
  return kFine;
}

}  // namespace hydrac::cli
