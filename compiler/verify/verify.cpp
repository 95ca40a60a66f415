#include "verify/verify.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>

#include "runtime/checkpoint/safetensors.h"
#include "verify/oracle.h"

namespace hydrac::verify {

namespace {

// Squared norms of a difference and of the reference, summed over slots.
struct Sums {
  double difference = 0, reference = 0;
  double relative() const {
    return reference > 0 ? std::sqrt(difference / reference) : std::sqrt(difference);
  }
};

void add(Sums& sums, std::span<const float> ours, std::span<const double> reference) {
  for (size_t i = 0; i < ours.size(); ++i) {
    const double d = ours[i] - reference[i];
    sums.difference += d * d;
    sums.reference += reference[i] * reference[i];
  }
}

std::vector<double> doubles(const runtime::SafetensorsReader& file, const std::string& name) {
  const auto bytes = file.bytes(file.at(name));
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

using Tensors = std::map<std::string, std::vector<std::vector<float>>>;  // name -> slots

// Every parameter's tensors, or their gradients'.
Tensors read_all(const targets::Executable& program, const std::string& prefix) {
  Tensors tensors;
  const ir::Graph& graph = program.compiled().graph;
  for (const ir::Value& value : graph.values) {
    if (!value.parameter) continue;
    for (int slot = 0; slot < value.slots; ++slot)
      tensors[value.name].push_back(read_unpadded(program, graph.find(prefix + value.name), value, slot));
  }
  return tensors;
}

// Which elements of a slot have a gradient to speak of, or none at all (rows of tokens that did not occur).
std::vector<bool> has_gradient(const std::vector<double>& gradient) {
  double square = 0;
  for (double g : gradient) square += g * g;
  const double least = kNoise * std::sqrt(square / static_cast<double>(gradient.size()));
  std::vector<bool> has(gradient.size());
  for (size_t i = 0; i < gradient.size(); ++i) has[i] = gradient[i] == 0 || std::abs(gradient[i]) > least;
  return has;
}

void compare_gradients(const Tensors& ours, const runtime::SafetensorsReader& reference,
                       std::vector<Difference>& out) {
  for (const auto& [name, slots] : ours) {
    Sums sums;
    for (size_t slot = 0; slot < slots.size(); ++slot)
      add(sums, slots[slot], doubles(reference, fmt::format("grad.{}.{}", name, slot)));
    out.push_back({"gradient", name, sums.relative(), kGradientTolerance});
  }
}

void compare_parameters(Tensors ours, const runtime::SafetensorsReader& reference,
                        std::vector<Difference>& out) {
  for (auto& [name, slots] : ours) {
    Sums sums;
    int64_t left_out = 0;
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      std::vector<double> wanted = doubles(reference, fmt::format("param.{}.{}", name, slot));
      const std::vector<bool> compared =
          has_gradient(doubles(reference, fmt::format("grad.{}.{}", name, slot)));
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (compared[i]) continue;
        slots[slot][i] = 0;
        wanted[i] = 0;
        ++left_out;
      }
      add(sums, slots[slot], wanted);
    }
    out.push_back({"parameter", name, sums.relative(), kParameterTolerance, left_out});
  }
}

}  // namespace

std::vector<Difference> compare(targets::Executable& program, int64_t steps,
                                const std::filesystem::path& oracle, const std::filesystem::path& job_dir) {
  program.initialize();
  const Batches batches = random_batches(program.compiled().spec, steps, 20240229);
  write_verify_job(job_dir, program, batches);

  std::vector<runtime::StepResult> results;
  Tensors gradients;
  for (const auto& step : batches) {
    for (const runtime::Batch& batch : step) program.micro_step(batch, inverse_count(step));
    if (results.empty()) gradients = read_all(program, "d_");
    program.update();
    results.push_back(program.finish_step());
  }
  run_oracle(oracle, "verify", job_dir);

  const runtime::SafetensorsReader reference(job_dir / "result.safetensors");
  std::vector<Difference> differences;
  for (size_t s = 0; s < results.size(); ++s) {
    for (const auto& [what, ours] :
         {std::pair{"loss", results[s].loss}, std::pair{"grad_norm", results[s].grad_norm}}) {
      const double wanted = doubles(reference, fmt::format("{}.s{}", what, s))[0];
      const double tolerance = std::string(what) == "loss" ? kLossTolerance : kGradientTolerance;
      differences.push_back(
          {what, fmt::format("step {}", s), std::abs(ours - wanted) / std::abs(wanted), tolerance});
    }
  }
  compare_gradients(gradients, reference, differences);
  compare_parameters(read_all(program, ""), reference, differences);
  return differences;
}

}  // namespace hydrac::verify
