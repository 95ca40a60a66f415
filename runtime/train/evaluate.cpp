#include "runtime/train/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/error.h"

namespace hydrac::runtime {

std::optional<double> evaluate(StepProgram& program, const BatchLoader& loader, int64_t max_batches) {
  const int64_t batches = std::min(max_batches, loader.eval_batches());
  if (batches <= 0) return std::nullopt;
  double loss = 0;
  int64_t targets = 0;
  Batch batch;
  for (int64_t index = 0; index < batches; ++index) {
    loader.fill_eval(index, batch);
    if (batch.target_count == 0) continue;
    loss += program.evaluate(batch);
    targets += batch.target_count;
    if (!std::isfinite(loss)) break;  // so that this batch is the last one, see explain_divergence()
  }
  if (targets == 0) {
    throw InputError(
        fmt::format("the first {} validation batches have no targets; raise train.eval_batches, or set "
                    "train.eval_steps to 0",
                    batches));
  }
  return loss / static_cast<double>(targets);
}

}  // namespace hydrac::runtime
