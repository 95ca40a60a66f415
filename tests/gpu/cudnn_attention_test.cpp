// cuDNN's attention on a real GPU, against float64 on the host.
#include "cudnn_trial.h"

namespace hydrac::test {
namespace {

class CudnnAttentionCase : public CudnnAttentionTest, public testing::WithParamInterface<Case> {};

TEST_P(CudnnAttentionCase, OutputAndGradientsAreNearFloat64AndTheSameInEveryRun) {
  Trial trial(*gpu_, GetParam());
  const auto first = trial.run();
  trial.expect_near_reference(first);
  trial.expect_nothing_else_written(first);
  if (!GetParam().deterministic) return;
  for (int repeat = 0; repeat < 3; ++repeat) {
    EXPECT_TRUE(first == trial.run()) << "run " << repeat + 2 << " gave other bits";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudnnAttentionCase,
                         testing::Values(Case{shape(2, 256, 4, 4, 64)},                     //
                                         Case{shape(2, 1000, 4, 4, 64)},                    //
                                         Case{shape(2, 1000, 6, 2, 64)},                    //
                                         Case{shape(2, 1000, 6, 2, 64), false},             //
                                         Case{shape(2, 384, 6, 2, 128)},                    //
                                         Case{shape(1, 333, 8, 1, 128), false, false},      //
                                         Case{shape(3, 257, 3, 3, 96), true, false},        //
                                         Case{shape(2, 200, 4, 2, 40)},                     //
                                         Case{shape(2, 65, 2, 2, 32)},                      //
                                         Case{shape(1, 2, 1, 1, 64)},                       //
                                         Case{shape(2, 300, 4, 2, 64, false)},              //
                                         Case{shape(2, 512, 4, 4, 64), true, true, false},  //
                                         Case{shape(2, 1000, 6, 2, 64), true, true, false}),
                         [](const auto& info) { return text(info.param); });

TEST_F(CudnnAttentionTest, HeadsOf256ElementsWorkOnHopper) {
  if (gpu_->context.device().capability / 10 != 9) GTEST_SKIP() << "only compute capability 9.x has them";
  Trial trial(*gpu_, {shape(1, 300, 2, 1, 256)});
  trial.expect_near_reference(trial.run());
}

TEST_F(CudnnAttentionTest, ACapturedGraphGivesTheSameBits) {
  // 1000 tokens: before cuDNN 9.15.1 the gradients fill an array of lengths, which must be captured too.
  Trial trial(*gpu_, {shape(2, 1000, 6, 2, 64)});
  const auto eager = trial.run();
  const auto graph = runtime::cuda::Graph::capture(gpu_->stream, [&] {
    trial.queue(gpu_->attention, trial.forward());
    trial.queue_gradients(gpu_->attention, trial.backward());
  });
  EXPECT_GE(graph.nodes(), 2u);
  for (int repeat = 0; repeat < 2; ++repeat) {
    trial.upload();
    graph.launch(gpu_->stream);
    EXPECT_TRUE(eager == trial.download()) << "launch " << repeat + 1;
  }
}

}  // namespace
}  // namespace hydrac::test
