// A kernel over one parameter group, with the parts that all optimizers share: the tensors and scalars that
// it reads, the guard by which a skipped step changes nothing, and how results of 16 and 8 bits are stored.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "optimizers/moments.h"

namespace hydrac::optimizers {

class GroupKernel {
 public:
  // Inputs of the update beside the step's learning rate and clip factor.
  struct Tensors {
    bool parameters = true, gradients = true;
    std::vector<Moment> moments = {};
    std::vector<ir::Use> scalars = {};  // f32 []
    ir::Use reads = {}, makes = {};     // packed as the group: one more tensor that it reads, or makes
  };
  GroupKernel(Update& update, const models::ParameterGroup& group, const Tensors& tensors);

  // Memory before the step, as f32. Gradients are clipped, and a loss scale is divided out.
  ir::Term parameter() { return body().full(parameter_); }
  ir::Term gradient() { return body().named("gradient", body().full(gradient_) * body().scalar(clip_)); }
  ir::Term moment(int i);
  ir::Term read() { return body().full(read_); }
  ir::Term learning_rate() { return body().scalar(learning_rate_); }
  ir::Term scalar(int i) { return body().scalar(scalars_ + i); }
  // p less the weight decay of its row, and that as a formula.
  ir::Term decayed(ir::Term p);
  std::string decayed_formula() const;

  // Memory after a step that is not skipped.
  void store_parameter(ir::Term after, const std::string& name = "");
  void store_moment(int i, ir::Term after, const std::string& name);
  void store_made(ir::Term value) { body().store(made_, value); }
  // Adds the kernel to the update; every parameter and moment is stored by now.
  void emit(const std::string& name, const std::string& formula);

  ir::BodyBuilder& body() { return *body_; }

 private:
  // Positions of a tensor that is updated in place, among inputs and outputs.
  struct InPlace {
    int input = -1, output = -1;
  };
  struct StoredMoment {
    InPlace numbers;  // or their codes
    InPlace scales;   // of codes
    bool is_signed = true;
  };
  bool decays() const;
  int64_t number() const { return &group_ - update_.pack.groups.data(); }  // in the pack
  int add_input(ir::Use use);
  int add_output(ir::Use use);
  InPlace add_part(ir::Use whole, ir::DType moments);
  void store_codes(const StoredMoment& moment, ir::Term after, const std::string& name);
  // `tensor`: 0 for the parameters, then the moments.
  ir::Term stored(int tensor, int output, ir::Term before, ir::Term after, const std::string& name);

  Update& update_;
  const models::ParameterGroup& group_;
  ir::Node node_;
  std::vector<StoredMoment> moments_;
  int parameter_ = -1, gradient_ = -1, read_ = -1, scalars_ = -1;  // inputs
  int learning_rate_ = -1, clip_ = -1, key_ = -1, places_ = -1;    // inputs
  int stored_parameter_ = -1, made_ = -1, zeroed_gradient_ = -1;   // outputs
  bool rounds_ = false;                                            // something is stored in bf16
  std::optional<SkipGuard> guard_;
  std::optional<ir::BodyBuilder> body_;
};

}  // namespace hydrac::optimizers
