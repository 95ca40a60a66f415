// This machine as a workbench of the tuner (tune/search.h): candidates are specs, compiled and run.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/build_program.h"
#include "cli/input/arguments.h"
#include "tune/search.h"
#include "tune/timed_steps.h"

namespace hydrac::cli {

// A candidate's program with its machine.
class SpecRunner final : public tune::Runner {
 public:
  // `in_parts`: a step of many micro-batches is timed by steps of few, because all but the first micro-batch
  // take the same time.
  SpecRunner(BuiltProgram built, bool in_parts);

  Round run(int64_t steps) override;
  void warm_up() override;
  std::vector<Call> calls(int most) override;
  void take(const tune::Algorithm& algorithm, const std::string& words) override;
  // From the first weights: the loss of the last of `steps` steps.
  double loss_after(int64_t steps);
  targets::Executable& program() { return *built_.program; }

 private:
  double seconds_in_parts(int64_t steps);

  BuiltProgram built_;
  tune::TimedSteps steps_;
  const int64_t micro_batches_;  // of a step
  const bool in_parts_;
};

class SpecWorkbench final : public tune::Workbench {
 public:
  // `base`: the spec with its defaults, complete. Both must outlive this. `in_parts`: see SpecRunner.
  SpecWorkbench(const Arguments& arguments, const spec::Spec& base, bool in_parts);

  std::optional<tune::Planned> plan(const tune::Candidate& candidate) override;
  std::unique_ptr<tune::Runner> open(const tune::Candidate& candidate) override;
  bool both_fit(int64_t bytes, int64_t other_bytes) const override;
  bool has_algorithms() const override;
  double now() const override;
  bool stopped() const override;

  // Parts of the defaults, which can be planned.
  tune::Parts parts() const;
  // The candidate's spec, checked as if it were written; nullopt where its keys contradict the others.
  std::optional<spec::Spec> spec_of(const tune::Candidate& candidate) const;
  // Its program; Reported where the machine has no room for it now.
  std::unique_ptr<SpecRunner> runner(const tune::Candidate& candidate) const;

 private:
  std::optional<tune::Planned> planned(const tune::Candidate& candidate) const;

  const Arguments& arguments_;
  const spec::Spec& base_;
  const bool in_parts_;
  int64_t memory_bytes_ = 0;  // as --memory says
  int64_t limit_ = 0;
  std::map<std::map<std::string, std::string>, std::optional<tune::Planned>> plans_;  // by Candidate::values
};

}  // namespace hydrac::cli
