#include "oracle/aten/verify.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "oracle/aten/optimizer.h"
#include "oracle/aten/runner.h"
#include "oracle/aten/tensors.h"
#include "oracle/aten/threads.h"
#include "oracle/job/error.h"
#include "oracle/job/evaluation.h"
#include "oracle/job/schedule.h"

namespace hydrac::oracle {
namespace {

// A run's type and device, and the prefix of its results' names.
struct Arithmetic {
  at::ScalarType floating = at::kDouble;   // parameters and everything else that is not 16 bits wide
  std::optional<at::ScalarType> autocast;  // the 16-bit type
  at::Device device = at::kCPU;
  double gradient_noise = 0;  // of every gradient, relative to its tensor's root mean square
  std::string prefix;
};

// PyTorch's GradScaler starts here.
constexpr double kFirstLossScale = 65536;

class Verification {
 public:
  Verification(const Job& job, const SafetensorsFile& tensors, const Arithmetic& arithmetic,
               SafetensorsWriter& results)
      : job_(job),
        tensors_(tensors),
        arithmetic_(arithmetic),
        results_(results),
        evaluation_graph_(evaluation_graph(job.graph)),
        runner_(job.graph, job.peer_ops ? Mode::training : Mode::reference, job.seed, arithmetic.autocast),
        parameters_(list_parameters(job.graph, job.decay)),
        noise_(at::make_generator<at::CPUGeneratorImpl>(job.seed)),
        loss_scale_(arithmetic.autocast == at::kHalf ? kFirstLossScale : 1) {
    for (const Value& value : job.graph.values) parameter_at_.emplace_back(value.slots, -1);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      Parameter& parameter = parameters_[i];
      parameter.tensor = stored(parameter.name, job.graph.values[parameter.value]);
      if (!parameter.tensor.defined())
        throw JobError(fmt::format("tensors.safetensors has no parameter \"{}\"", parameter.name));
      parameter.tensor.set_requires_grad(true);
      parameter_at_[parameter.value][parameter.slot] = static_cast<int>(i);
    }
  }

  void run() {
    Optimizer optimizer(job_, parameters_, /*prefer_fused=*/job_.peer_ops, arithmetic_.autocast);
    AdaptedShare adapted(job_.schedule);
    for (int step = 0; step < job_.steps; ++step) {
      const double loss = find_gradients(step);
      if (arithmetic_.gradient_noise > 0)
        disturb_gradients();
      else if (step == 0)
        store_gradients();
      const double norm = gradient_norm(parameters_);
      store_number(fmt::format("grad_norm.s{}", step), norm);
      clip_gradients(parameters_, norm, job_.max_grad_norm);
      optimizer.step(job_.optimizer.learning_rate *
                     learning_rate_factor(job_.schedule, step, adapted.share()));
      adapted.see(step, loss);
      forget_gradients();
      runner_.next_step();
    }
    for (const Parameter& parameter : parameters_) store("param." + parameter.name, parameter.tensor);
    store_number("loss.evaluation", evaluate());
    const Choices& choices = runner_.choices();
    if (choices.tokens > 0)
      store_number("choices.differing",
                   static_cast<double>(choices.differing) / static_cast<double>(choices.tokens));
  }

 private:
  // Undefined when the file has no such tensor.
  at::Tensor stored(const std::string& name, const Value& value) const {
    const TensorView* view = tensors_.find(name);
    if (!view) return {};
    const bool wants_floats = value.dtype == Dtype::f32;
    if (wants_floats != view->dtype.starts_with('F'))
      throw JobError(fmt::format("tensors.safetensors: \"{}\" is {}; the graph wants {}", name, view->dtype,
                                 wants_floats ? "floating-point numbers" : "integers"));
    return with_shape_of(value, load_tensor(*view, arithmetic_.floating, arithmetic_.device),
                         fmt::format("tensors.safetensors: \"{}\"", name));
  }

  at::Tensor source(int value, int slot, int step, int micro) const {
    const Value& declared = job_.graph.values[value];
    if (declared.role == Role::parameter) return parameters_[parameter_at_[value][slot]].tensor;
    if (declared.role == Role::input)
      return stored(fmt::format("{}.s{}.m{}", declared.name, step, micro), declared);
    if (declared.nf4.empty()) return stored(slot_name(declared, slot), declared);
    at::Tensor& matrix = quantized_[{value, slot}];
    if (!matrix.defined()) matrix = as_stored(declared, stored(slot_name(declared, slot), declared));
    return matrix;
  }

  // Gradients in fp16 would vanish below 6e-8, so the loss is scaled. Where GradScaler skips a step whose
  // gradients overflow, and tries the next with half the scale, we try the same step again.
  // Returns the step's loss.
  double find_gradients(int step) {
    StepLosses losses = forward_and_backward(step, /*observed=*/step == 0 && !job_.dump.empty());
    while (arithmetic_.autocast == at::kHalf && !gradients_are_finite()) {
      loss_scale_ /= 2;
      if (loss_scale_ < 1)
        throw JobError(
            fmt::format("step {} overflows under autocast to fp16 whatever the loss is scaled by", step));
      forget_gradients();
      losses = forward_and_backward(step, /*observed=*/false);
    }
    store_number(fmt::format("loss.s{}", step), losses.loss);
    if (job_.graph.auxiliary) store_number(fmt::format("aux_loss.s{}", step), losses.auxiliary);
    if (loss_scale_ == 1) return losses.loss;
    for (const Parameter& parameter : parameters_)
      if (parameter.gradient().defined()) parameter.gradient().mul_(1 / loss_scale_);
    return losses.loss;
  }

  // Summed over the micro-batches; the gradients are loss_scale_ times those of both together.
  struct StepLosses {
    double loss = 0, auxiliary = 0;
  };
  StepLosses forward_and_backward(int step, bool observed) {
    StepLosses sums;
    for (int micro = 0; micro < job_.accumulation; ++micro) {
      const auto get = [&](int value, int slot) { return source(value, slot, step, micro); };
      const auto dump = [&](int value, int slot, const at::Tensor& tensor) {
        const Value& written = job_.graph.values[value];
        if (std::count(job_.dump.begin(), job_.dump.end(), written.name))
          store("act." + slot_name(written, slot), tensor);
      };
      const Runner::Losses losses =
          runner_.forward(get, observed && micro == 0 ? Runner::Observer(dump) : Runner::Observer());
      sums.loss += losses.loss.item<double>();
      if (losses.auxiliary.defined()) sums.auxiliary += losses.auxiliary.item<double>();
      const at::Tensor total = losses.total();
      if (total.requires_grad()) (loss_scale_ == 1 ? total : total * loss_scale_).backward();
    }
    return sums;
  }

  // The loss of the first micro-batch of all, as the parameters are now.
  double evaluate() const {
    const at::NoGradGuard no_gradients;
    Runner runner(evaluation_graph_, Mode::reference, job_.seed, arithmetic_.autocast);
    const auto get = [&](int value, int slot) {
      const Value& declared = job_.graph.values[value];
      const std::string own = declared.name + ".evaluation";
      return tensors_.find(own) ? stored(own, declared) : source(value, slot, 0, 0);
    };
    return runner.forward(get).loss.item<double>();
  }

  // Adds normally distributed errors to whatever is not exactly zero, as the rows of tokens that do not occur
  // are.
  void disturb_gradients() {
    for (const Parameter& parameter : parameters_) {
      const at::Tensor gradient = parameter.gradient();
      if (!gradient.defined()) continue;
      const at::Tensor error = at::randn(gradient.sizes(), noise_, at::kDouble).to(gradient.options());
      const double size = arithmetic_.gradient_noise * gradient.square().mean().sqrt().item<double>();
      gradient.add_(error.mul_(gradient != 0), size);
    }
  }

  bool gradients_are_finite() const {
    return std::all_of(parameters_.begin(), parameters_.end(), [](const Parameter& parameter) {
      return !parameter.gradient().defined() || at::isfinite(parameter.gradient()).all().item<bool>();
    });
  }

  void forget_gradients() {
    for (Parameter& parameter : parameters_) parameter.tensor.mutable_grad() = at::Tensor();
  }

  void store_gradients() {
    for (const Parameter& parameter : parameters_)
      store("grad." + parameter.name,
            parameter.gradient().defined() ? parameter.gradient() : at::zeros_like(parameter.tensor));
  }

  void store(const std::string& name, const at::Tensor& tensor) {
    store_tensor(results_, arithmetic_.prefix + name, tensor);
  }

  void store_number(const std::string& name, double number) {
    results_.add(arithmetic_.prefix + name, {}, &number);
  }

  const Job& job_;
  const SafetensorsFile& tensors_;
  const Arithmetic arithmetic_;
  SafetensorsWriter& results_;
  const Graph evaluation_graph_;
  Runner runner_;
  std::vector<Parameter> parameters_;
  at::Generator noise_;
  double loss_scale_;
  mutable std::map<std::pair<int, int>, at::Tensor> quantized_;  // those of 4-bit codes, by value and slot
  std::vector<std::vector<int>> parameter_at_;  // [value][slot] -> index into parameters_, or -1
};

}  // namespace

void verify(const Job& job, const SafetensorsFile& tensors, c10::Device device, SafetensorsWriter& results) {
  use_threads(job.threads);
  Arithmetic arithmetic{.floating = job.float64 ? at::kDouble : at::kFloat, .device = device};
  Verification(job, tensors, arithmetic, results).run();
  if (job.gradient_noise > 0) {
    Arithmetic noisy = arithmetic;
    noisy.gradient_noise = job.gradient_noise;
    noisy.prefix = "noisy.";
    Verification(job, tensors, noisy, results).run();
  }
  if (!job.autocast) return;
  arithmetic.floating = at::kFloat;
  arithmetic.autocast = *job.autocast == Float16::bf16 ? at::kBFloat16 : at::kHalf;
  arithmetic.prefix = "autocast.";
  Verification(job, tensors, arithmetic, results).run();
}

c10::Device find_device(const std::string& name) {
  if (name != "cpu" && name != "cuda" && name != "auto")
    throw JobError(fmt::format("--device is \"{}\"; it must be cpu, cuda or auto", name));
  const bool wanted = name != "cpu", found = wanted && at::globalContext().hasCUDA();
  if (name == "cuda" && !found)
    throw JobError(
        "--device cuda: LibTorch sees no GPU. It needs NVIDIA's driver and a LibTorch that was built for "
        "CUDA");
  return found ? at::kCUDA : at::kCPU;
}

}  // namespace hydrac::oracle
