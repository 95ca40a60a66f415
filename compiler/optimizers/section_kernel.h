// The kernel that updates one section of the pack, as far as all optimizers are alike: which tensors and
// scalars it reads, that a skipped step leaves everything as it is, and how results of 16 bits are rounded.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "optimizers/optimizer.h"

namespace hydrac::optimizers {

// A moment shaped like the pack, under this name in checkpoints.
ir::Use moment(Update&, const std::string& name);

class SectionKernel {
 public:
  // `moments`: of moment(). `scalars`: f32 [].
  SectionKernel(Update& update, const models::PackSection& section, const std::vector<ir::Use>& moments,
                const std::vector<ir::Use>& scalars = {});

  // What stands in memory before the step, as f32. Gradients are clipped, and a loss scale is divided out.
  ir::Term parameter() { return body().full(0); }
  ir::Term gradient() { return body().named("gradient", clipped_gradient()); }
  ir::Term clipped_gradient() { return body().full(1) * body().scalar(clip_); }
  ir::Term moment(int i) { return body().full(2 + i); }
  ir::Term learning_rate() { return body().scalar(learning_rate_); }
  ir::Term scalar(int i) { return body().scalar(clip_ + 1 + i); }
  // `decay` in the rows that take weight decay, 0 in the others.
  ir::Term row_decay(double decay);

  // What a step that is not skipped leaves.
  void store_parameter(ir::Term after, const std::string& name = "");
  void store_moment(int i, ir::Term after, const std::string& name);
  // Adds the kernel to the update; every parameter and moment is stored by now.
  void emit(const std::string& name, const std::string& formula);

  ir::BodyBuilder& body() { return *body_; }

 private:
  ir::Term stored(int tensor, ir::Term before, ir::Term after, const std::string& name);

  Update& update_;
  const models::PackSection& section_;
  ir::Node node_;
  std::vector<bool> rounds_;  // by tensor: the parameters, then the moments
  int learning_rate_ = 0, clip_ = 0, key_ = 0;
  std::optional<SkipGuard> guard_;
  std::optional<ir::BodyBuilder> body_;
};

}  // namespace hydrac::optimizers
