#include "oracle/aten/verify.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>

#include "oracle/aten/optimizer.h"
#include "oracle/aten/runner.h"
#include "oracle/aten/tensors.h"
#include "oracle/aten/threads.h"
#include "oracle/job/error.h"
#include "oracle/job/schedule.h"

namespace hydrac::oracle {
namespace {

class Verification {
 public:
  Verification(const Job& job, const SafetensorsFile& tensors, SafetensorsWriter& results)
      : job_(job),
        tensors_(tensors),
        results_(results),
        runner_(job.graph, job.peer_ops ? Mode::training : Mode::reference, job.seed),
        parameters_(list_parameters(job.graph, job.decay)) {
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
    Optimizer optimizer(job_.optimizer, parameters_, /*prefer_fused=*/job_.peer_ops);
    for (int step = 0; step < job_.steps; ++step) {
      forward_and_backward(step);
      if (step == 0) store_gradients();
      const double norm = gradient_norm(parameters_);
      store_number(fmt::format("grad_norm.s{}", step), norm);
      clip_gradients(parameters_, norm, job_.max_grad_norm);
      optimizer.step(job_.optimizer.learning_rate * learning_rate_factor(job_.schedule, step));
      for (Parameter& parameter : parameters_) parameter.tensor.mutable_grad() = at::Tensor();
    }
    for (const Parameter& parameter : parameters_)
      store_tensor(results_, "param." + parameter.name, parameter.tensor);
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
    return with_shape_of(value, load_tensor(*view, job_.float64 ? at::kDouble : at::kFloat),
                         fmt::format("tensors.safetensors: \"{}\"", name));
  }

  at::Tensor source(int value, int slot, int step, int micro) const {
    const Value& declared = job_.graph.values[value];
    if (declared.role == Role::parameter) return parameters_[parameter_at_[value][slot]].tensor;
    if (declared.role == Role::input)
      return stored(fmt::format("{}.s{}.m{}", declared.name, step, micro), declared);
    return stored(slot_name(declared, slot), declared);
  }

  void forward_and_backward(int step) {
    double total = 0;
    for (int micro = 0; micro < job_.accumulation; ++micro) {
      const auto get = [&](int value, int slot) { return source(value, slot, step, micro); };
      const auto dump = [&](int value, int slot, const at::Tensor& tensor) {
        const Value& written = job_.graph.values[value];
        if (std::count(job_.dump.begin(), job_.dump.end(), written.name))
          store_tensor(results_, "act." + slot_name(written, slot), tensor);
      };
      const bool observed = step == 0 && micro == 0 && !job_.dump.empty();
      const at::Tensor loss = runner_.forward(get, observed ? Runner::Observer(dump) : Runner::Observer());
      total += loss.item<double>();
      if (loss.requires_grad()) loss.backward();
    }
    store_number(fmt::format("loss.s{}", step), total);
  }

  void store_gradients() {
    for (const Parameter& parameter : parameters_)
      store_tensor(results_, "grad." + parameter.name,
                   parameter.gradient().defined() ? parameter.gradient() : at::zeros_like(parameter.tensor));
  }

  void store_number(const std::string& name, double number) { results_.add(name, {}, &number); }

  const Job& job_;
  const SafetensorsFile& tensors_;
  SafetensorsWriter& results_;
  Runner runner_;
  std::vector<Parameter> parameters_;
  std::vector<std::vector<int>> parameter_at_;  // [value][slot] -> index into parameters_, or -1
};

}  // namespace

void verify(const Job& job, const SafetensorsFile& tensors, SafetensorsWriter& results) {
  use_threads(job.threads);
  Verification(job, tensors, results).run();
}

}  // namespace hydrac::oracle
