// The tensors of a trial: as large as the program's, with memory where the rows of the trial touch them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/evaluate_rows.h"
#include "targets/trial/trials.h"

namespace hydrac::targets {

// Inputs of a trial. `both_signs`: floats of both signs, integers 0 and 1. `positive`: the same with positive
// floats, for formulas that are undefined for negative ones. `ascending`: positive floats, and integers 0, 1,
// 2, ..., as in a list of positions.
enum class Numbers { both_signs, positive, ascending };

// Memory of a trial. It invents the numbers that the interpreter reads, and puts them where the kernel reads
// them. The interpreter's results are kept apart and compared with the kernel's.
class TrialMemory final : public ir::RowMemory {
 public:
  TrialMemory(const ir::Graph& graph, const Trial& trial, Numbers numbers, uint32_t seed);

  double load(int operand, int64_t offset) override;
  double& result(int operand, int64_t offset) override;
  double load_outside(int operand, double offset) override;

  // An offset for each dimension of each operand.
  const std::vector<std::vector<int64_t>>& strides() const { return strides_; }
  // The call's arguments, in order.
  const std::vector<void*>& arguments() const { return arguments_; }

  // True if the kernel reads only memory that the trial has: invented indices may point anywhere.
  bool is_readable() const { return is_readable_; }
  bool expects_only_finite() const;
  // The first element that is not what the interpreter has, as "y[5] is 1 instead of 2"; "" if all are.
  std::string difference() const;

 private:
  // Memory that is 0 until it is written.
  class Pages {
   public:
    explicit Pages(int64_t bytes);
    ~Pages();
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    std::byte* first() const;      // with room before it, too
    bool have(double byte) const;  // counted from first()

   private:
    void* all_;
    size_t bytes_;
  };
  struct Tensor {
    ir::DType dtype = ir::DType::f32;
    std::string name;
    const Pages* pages = nullptr;
    std::unordered_map<int64_t, double> results;
  };

  double number(int operand, int64_t offset) const;
  double tolerance(const Tensor& tensor) const;

  const ir::Body& body_;
  const Numbers numbers_;
  const uint32_t seed_;
  std::vector<std::unique_ptr<Pages>> pages_;
  std::vector<std::vector<int64_t>> strides_;
  std::vector<Tensor> tensors_;  // by operand
  std::vector<void*> arguments_;
  bool is_readable_ = true;
};

}  // namespace hydrac::targets
