// The same for a GPU, as far as a machine without one goes: it links, and says what is missing.
#include <optional>

#include "runtime/app/exit_code.h"
#include "runtime/cuda/cuda_step_program.h"

using namespace hydrac::runtime;

namespace {

class NoCalls final : public cuda::CudaStepProgram {
 public:
  explicit NoCalls(const cuda::Context& context) : CudaStepProgram(ProgramLayout(), context) {
    capture_graphs();
  }
  ~NoCalls() override { shut_down(); }
  std::string description() const override { return "no calls"; }

 private:
  void enqueue(Function) override {}
};

}  // namespace

int main() {
  return exit_code_of("tiny-cuda", [] {
    const cuda::Context context;
    NoCalls program(context);
    return kExitFine;
  });
}
