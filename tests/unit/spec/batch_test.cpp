// A step's batch: given as a whole, or as what it is made of. What contradicts is in tests/cases/errors.
#include "spec/batch.h"

#include "spec/print.h"
#include "spec/with_data.h"
#include "support.h"

namespace hydrac::spec {
namespace {

const std::string kOpen = kSmall.substr(0, kSmall.find("micro_batch_size")) + "max_steps: 100}\n";

TEST(Batch, OfAMicroBatchAlone) {
  const Spec spec = good(kSmall);
  EXPECT_EQ(spec.train.gradient_accumulation_steps, 1);
  EXPECT_EQ(spec.train.global_batch_size, 4);
  EXPECT_EQ(good(kSmall, {"train.gradient_accumulation_steps=3"}).train.global_batch_size, 12);
}

TEST(Batch, IsSplitByThePartThatIsGiven) {
  const Spec by_micro = good(kSmall, {"train.global_batch_size=24"});
  EXPECT_EQ(by_micro.train.gradient_accumulation_steps, 6);
  const Spec by_steps = good(kOpen, {"train.global_batch_size=24", "train.gradient_accumulation_steps=8"});
  EXPECT_EQ(by_steps.train.micro_batch_size, 3);
  const Spec as_said = good(kSmall, {"train.global_batch_size=24", "train.gradient_accumulation_steps=6"});
  EXPECT_EQ(as_said, by_micro);
}

TEST(Batch, InTokensIsTheSameBatch) {
  const Spec spec = good(kSmall, {"train.global_batch_tokens=1536"});
  EXPECT_EQ(spec.train.global_batch_size, 24);
  EXPECT_EQ(spec, good(kSmall, {"train.global_batch_size=24"}));
}

TEST(Batch, SizesReplaceEachOtherWhereOneIsLaidOverTheOther) {
  EXPECT_EQ(good(kSmall, {"train.global_batch_size=24", "train.global_batch_tokens=512"})
                .train.gradient_accumulation_steps,
            2);
}

TEST(Batch, WaitsForThePlanWhereTheMicroBatchIsOpen) {
  for (const auto& overrides : {std::vector<std::string>{"train.global_batch_size=24"},
                                {"train.global_batch_size=24", "train.micro_batch_size=auto"}}) {
    Spec spec = good(kOpen, overrides);
    EXPECT_TRUE(waits_for_plan(spec));
    EXPECT_EQ(good(to_yaml(spec)), spec) << "printed before it is chosen";
    EXPECT_EQ(micro_batch_sizes(spec), (std::vector<int64_t>{1, 2, 3, 4, 6, 8, 12, 24}));
    set_micro_batch(spec, 6);
    EXPECT_FALSE(waits_for_plan(spec));
    EXPECT_EQ(spec.train.gradient_accumulation_steps, 4);
    EXPECT_EQ(to_yaml(spec).find("global"), std::string::npos);
    EXPECT_EQ(good(to_yaml(spec)), spec) << "a resumed run is the same";
  }
}

TEST(Batch, OfEpochsCountsWholeSteps) {
  Spec spec = good(kOpen.substr(0, kOpen.find("max_steps")) + "epochs: 2}\n", {"train.global_batch_size=24"});
  diag::Diagnostics diagnostics;
  ASSERT_TRUE(complete_with_data(spec, {100, 0}, diagnostics));
  EXPECT_EQ(spec.train.max_steps, 9);  // 200 / 24, before the micro-batch is known
}

}  // namespace
}  // namespace hydrac::spec
