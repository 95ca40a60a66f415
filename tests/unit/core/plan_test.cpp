// The memory plan: exact bytes, no overlaps, few bytes lost.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codegen/cpu/program.h"
#include "plan/liveness.h"
#include "small_models.h"

namespace hydrac::test {
namespace {

using plan::Interval;
using plan::Life;
using plan::Placement;

ir::ValueId add(ir::Graph& graph, const std::string& name, int64_t elements, int slots = 1,
                ir::Role role = ir::Role::activation) {
  ir::Value value;
  value.name = name;
  value.shape = {{elements, ""}};
  value.slots = slots;
  value.role = role;
  return graph.add(std::move(value));
}

ir::Node node(std::vector<ir::Use> inputs, std::vector<ir::Use> outputs) {
  return {.op = ir::Op::zero, .inputs = std::move(inputs), .outputs = std::move(outputs)};
}

// x -> a -> b -> c -> y, each node reading only the one before.
struct Chain {
  ir::Graph graph;
  ir::ValueId x, a, b, c, y;
  Chain() {
    x = add(graph, "x", 100, 1, ir::Role::input);
    a = add(graph, "a", 100);
    b = add(graph, "b", 50);
    c = add(graph, "c", 100);
    y = add(graph, "y", 1, 1, ir::Role::state);
    graph.functions.push_back({"f",
                               {{"only",
                                 0,
                                 false,
                                 false,
                                 {node({{x, {}}}, {{a, {}}}), node({{a, {}}}, {{b, {}}}),
                                  node({{b, {}}}, {{c, {}}}), node({{c, {}}}, {{y, {}}})}}}});
  }
};

// What the host's memory holds comes last, behind a page's end, so that either part can be mapped by itself.
TEST(Plan, EndsWithWhatLiesOnTheHost) {
  Chain chain;
  const ir::ValueId moments = add(chain.graph, "m", 1000, 2, ir::Role::optimizer_state);
  chain.graph.value(moments).on_host = true;
  const plan::Plan all_on_device = plan::make_plan(Chain().graph), plan = plan::make_plan(chain.graph);
  EXPECT_EQ(plan.persistent_bytes, all_on_device.persistent_bytes);
  EXPECT_EQ(plan.device_bytes(), plan::kPage);
  EXPECT_EQ(plan.host_bytes, plan::kPage);
  EXPECT_EQ(plan.placements.at(moments).offset, plan::kPage);
  EXPECT_EQ(plan.placements.at(moments).bytes(), 2 * 4096);
  EXPECT_EQ(plan::verify(chain.graph, plan), std::vector<std::string>());
  EXPECT_EQ(all_on_device.host_bytes, 0);
  EXPECT_EQ(all_on_device.device_bytes(), all_on_device.arena_bytes);
}

// The boundary of the memories may lie within a tensor: addresses do not change.
TEST(Plan, KeepsWhatItIsAskedToOfWhatMayLieOnTheHost) {
  Chain chain;
  const ir::ValueId moments = add(chain.graph, "m", 1 << 20, 2, ir::Role::optimizer_state);  // 8 MiB
  chain.graph.value(moments).on_host = true;
  const plan::Plan none = plan::make_plan(chain.graph);
  const plan::Plan some = plan::make_plan(chain.graph, 2 * plan::kPage + 1);
  EXPECT_EQ(some.kept_bytes, 2 * plan::kPage);
  EXPECT_EQ(some.host_bytes, 2 * plan::kPage);
  EXPECT_EQ(some.arena_bytes, none.arena_bytes);
  EXPECT_EQ(some.device_bytes(), none.device_bytes() + 2 * plan::kPage);
  EXPECT_EQ(some.placements.at(moments).offset, none.placements.at(moments).offset);
  EXPECT_EQ(plan::verify(chain.graph, some), std::vector<std::string>());
  EXPECT_EQ(plan::make_plan(chain.graph, int64_t{1} << 40).host_bytes, 0);
}

TEST(Plan, OfAChainByHand) {
  const Chain chain;
  const plan::Plan plan = plan::make_plan(chain.graph);
  // Persistent: x is 400 bytes in 512, y 4 bytes in 256. Then a and c (400 in 512) share, b (200 in 256) lies
  // behind.
  EXPECT_EQ(plan.persistent_bytes, 768);
  EXPECT_EQ(plan.placements.at(chain.x).offset, 0);
  EXPECT_EQ(plan.placements.at(chain.y).offset, 512);
  EXPECT_EQ(plan.placements.at(chain.a).offset, 768);
  EXPECT_EQ(plan.placements.at(chain.c).offset, 768);
  EXPECT_EQ(plan.placements.at(chain.b).offset, 768 + 512);
  EXPECT_EQ(plan.arena_bytes, 768 + 512 + 256);
  EXPECT_EQ(plan.live_bytes.at("f"), 512 + 256);
  EXPECT_EQ(plan::verify(chain.graph, plan), std::vector<std::string>{});
  EXPECT_EQ(plan::to_text(chain.graph, plan),
            "arena 1536 bytes, of which 768 live on\n"
            "             0            512  x [100] input\n"
            "           512            256  y [1] state\n"
            "           768            512  a [100] activation\n"
            "           768            512  c [100] activation\n"
            "          1280            256  b [50] activation\n");
}

TEST(Plan, MemoryForWhatRanksExchangeLiesBehindActivations) {
  const Chain chain;
  const plan::Plan plain = plan::make_plan(chain.graph), plan = plan::make_plan(chain.graph, 0, 1000);
  EXPECT_EQ(plan.exchange_offset, plain.arena_bytes);
  EXPECT_EQ(plan.exchange_bytes, 1024);
  EXPECT_EQ(plan.arena_bytes, plain.arena_bytes + 1024);
  EXPECT_EQ(plan::verify(chain.graph, plan), std::vector<std::string>());
}

TEST(Plan, VerifierFindsNeighboursThatShareMemory) {
  const Chain chain;
  plan::Plan plan = plan::make_plan(chain.graph);
  plan.placements[chain.b].offset = 1024;
  EXPECT_EQ(plan::verify(chain.graph, plan),
            (std::vector<std::string>{"a and b share memory while both are alive",
                                      "b and c share memory while both are alive"}));
}

TEST(Plan, VerifierFindsAnActivationInWhatLivesOn) {
  const Chain chain;
  plan::Plan plan = plan::make_plan(chain.graph);
  plan.placements[chain.b].offset = 256;
  EXPECT_EQ(plan::verify(chain.graph, plan),
            (std::vector<std::string>{"x and b share memory while both are alive"}));
}

TEST(Plan, VerifierFindsWhatLiesOutsideTheArenaOrIsNotAligned) {
  const Chain chain;
  plan::Plan plan = plan::make_plan(chain.graph);
  plan.placements[chain.b].offset = 1536;
  EXPECT_EQ(plan::verify(chain.graph, plan),
            (std::vector<std::string>{"b is placed at 1536, outside the arena or not aligned"}));
  plan.placements[chain.b].offset = 1280 - 128;
  EXPECT_EQ(plan::verify(chain.graph, plan).at(1), "b is placed at 1152, outside the arena or not aligned");
}

TEST(Plan, AValueThatTwoFunctionsUseIsRefused) {
  Chain chain;
  chain.graph.functions.push_back(
      {"g", {{"only", 0, false, false, {node({{chain.a, {}}}, {{chain.y, {}}})}}}});
  EXPECT_THROW(plan::make_plan(chain.graph), std::logic_error);
}

Life life(std::map<int, Interval> slots) {
  return {std::move(slots), "f"};
}

TEST(Slots, OneWhenEachDiesBeforeTheNextIsWritten) {
  EXPECT_EQ(plan::slots_needed(life({{0, {0, 2}}, {1, {2, 4}}, {2, {4, 6}}})), 1);
}
TEST(Slots, TwoWhenOnlyNeighboursOverlap) {
  EXPECT_EQ(plan::slots_needed(life({{0, {0, 3}}, {1, {2, 5}}, {2, {4, 7}}})), 2);
}
TEST(Slots, AllWhenTheBackwardPassReadsThem) {
  EXPECT_EQ(plan::slots_needed(life({{0, {0, 9}}, {1, {1, 8}}, {2, {2, 7}}})), 3);
}
TEST(Slots, AsManyAsKeepThoseApartThatLiveTogether) {
  EXPECT_EQ(plan::slots_needed(life({{3, {0, 9}}, {5, {1, 8}}})), 3);
}
// The stream below frozen layers is gone when what the backward pass reads is written.
TEST(Slots, FewerWhenTheLowerOnesDieEarly) {
  EXPECT_EQ(plan::slots_needed(
                life({{0, {0, 2}}, {1, {1, 3}}, {2, {2, 4}}, {3, {3, 20}}, {4, {5, 18}}, {5, {7, 16}}})),
            3);
}
TEST(Slots, ASingleOne) {
  EXPECT_EQ(plan::slots_needed(life({{7, {0, 9}}})), 1);
}

TEST(Slots, IntervalsOfOneStorageMergeWhereTheyTouch) {
  const std::vector<Interval> merged = plan::merged_intervals(life({{0, {8, 9}}, {1, {0, 2}}, {2, {2, 4}}}));
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].first, 0);
  EXPECT_EQ(merged[0].last, 4);
  EXPECT_EQ(merged[1].first, 8);
}

TEST(Plan, AddressesFollowLayersSlotsAndViews) {
  ir::Graph graph;
  const ir::ValueId stream = add(graph, "stream", 64, 4),
                    pack = add(graph, "pack", 1000, 1, ir::Role::parameter),
                    w = add(graph, "w", 10, 3, ir::Role::parameter);
  const ir::ValueId half = add(graph, "half", 32, 4), y = add(graph, "y", 1, 1, ir::Role::state);
  graph.value(w).view = ir::View{pack, 100, 64, {1}};
  graph.value(half).view = ir::View{stream, 32, 0, {1}};
  graph.functions.push_back(
      {"f",
       {{"loop", 3, false, false, {node({{w, {true, 0}}}, {{stream, {true, 1}}})}},
        {"end", 0, false, false, {node({{half, {false, 3}}, {half, {false, 1}}}, {{y, {}}})}}}});
  const plan::Plan plan = plan::make_plan(graph);
  const int64_t base = plan.placements.at(stream).offset, slots = plan.placements.at(stream).slots;
  EXPECT_EQ(
      slots,
      3);  // slot 1 is read at the end, after slots 2 and 3 are written; slot 3 is where slot 0 would be
  EXPECT_EQ(address(graph, plan, {stream, {true, 1}}, 1), base + 2 * 256);
  EXPECT_EQ(address(graph, plan, {stream, {true, 1}}, 2), base);
  EXPECT_EQ(address(graph, plan, {half, {false, 3}}, 0), base + 128);
  EXPECT_EQ(address(graph, plan, {w, {true, 0}}, 2), plan.placements.at(pack).offset + (100 + 2 * 64) * 4);
}

// Three slots of two elements each, one after another in slot 2 of a stream.
struct PartsOfASlot {
  ir::Graph graph;
  ir::ValueId stream, parts, inside;
  PartsOfASlot() {
    stream = add(graph, "stream", 8, 4);
    parts = add(graph, "parts", 2, 3);
    inside = add(graph, "inside", 1, 3);
    graph.value(parts).view = ir::View{stream, 1, 2, {1}, 2};
    graph.value(inside).view = ir::View{parts, 1, 0, {1}};  // the second element of each
    graph.functions.push_back(
        {"f",
         {{"make", 3, false, false, {node({}, {{stream, {true, 1}}})}},
          {"loop",
           3,
           false,
           false,
           {node({{stream, {false, 3}}, {parts, {true, 0}}}, {{inside, {true, 0}}})}}}});
  }
};

TEST(Plan, PartsOfOneSlotKeepItAliveAndLieInIt) {
  const PartsOfASlot g;
  const plan::Plan plan = plan::make_plan(g.graph);
  const plan::Placement& placement = plan.placements.at(g.stream);
  EXPECT_EQ(placement.slots, 2);  // slots 2 and 3 are alive together, slot 1 never with them
  const int64_t slot2 = placement.offset + 2 % placement.slots * placement.slot_bytes;
  EXPECT_EQ(address(g.graph, plan, {g.parts, {true, 0}}, 0), slot2 + 1 * 4);
  EXPECT_EQ(address(g.graph, plan, {g.parts, {true, 0}}, 2), slot2 + (1 + 2 * 2) * 4);
  EXPECT_EQ(address(g.graph, plan, {g.inside, {true, 0}}, 2), slot2 + (1 + 2 * 2 + 1) * 4);
  EXPECT_EQ(storage_slot(g.graph, {g.inside, {true, 0}}), (ir::Slot{false, 2}));
  EXPECT_EQ(storage_slot(g.graph, {g.stream, {true, 1}}), (ir::Slot{true, 1}));
}

TEST(Plan, APartOfASlotThatIsNotThereIsFound) {
  PartsOfASlot g;
  g.graph.value(g.parts).view->base_slot = 4;
  EXPECT_EQ(ir::verify(g.graph),
            (std::vector<std::string>{"parts lies in a slot that stream does not have",
                                      "inside lies in a slot that stream does not have"}));
}

struct Shipped {
  const char* spec;
  std::vector<std::string> overrides;
};

// Placing loses little against the lower bound, also with recomputation.
TEST(Plan, OfTheShippedSpecsIsTight) {
  for (const Shipped& shipped : {Shipped{"quickstart", {"model.vocab_size=256"}},
                                 {"shakespeare-char", {"model.vocab_size=65"}},
                                 {"gpt2-124m", {}},
                                 {"llama-1b", {}},
                                 {"hydra-180m", {}},
                                 {"chatgot-small-char", {"model.vocab_size=128"}},
                                 {"series", {"model.num_features=30"}},
                                 {"series-classify", {"model.num_features=30"}}}) {
    for (const passes::RecomputeChoice recompute :
         {passes::RecomputeChoice{}, {.norm = true, .act = true}, {.qk_norm = true}, {.block = true}}) {
      SCOPED_TRACE(std::string(shipped.spec) + " " + to_string(recompute));
      SmallModel model(shipped_spec(shipped.spec, shipped.overrides),
                       {.recompute = recompute, .all_functions = true, .fuse = true, .in_place = true});
      codegen::build_cpu_program(model.graph, 2);  // adds workspaces
      ASSERT_EQ(ir::verify(model.graph), std::vector<std::string>{});
      const plan::Plan plan = plan::make_plan(model.graph);
      EXPECT_EQ(plan::verify(model.graph, plan), std::vector<std::string>{});
      int64_t bound = 0;
      for (const auto& [function, bytes] : plan.live_bytes) bound = std::max(bound, bytes);
      EXPECT_LE(static_cast<double>(plan.arena_bytes - plan.persistent_bytes),
                1.15 * static_cast<double>(bound));
    }
  }
}

TEST(Plan, RecomputingABlockKeepsLittlePerLayer) {
  const auto activations = [](const passes::RecomputeChoice& recompute) {
    SmallModel model(shipped_spec("gpt2-124m"), {.recompute = recompute, .fuse = true, .in_place = true});
    const plan::Plan plan = plan::make_plan(model.graph);
    return plan.arena_bytes - plan.persistent_bytes;
  };
  const int64_t none = activations({}), norm = activations({.norm = true}),
                block = activations({.block = true});
  EXPECT_LT(norm, none);
  EXPECT_LT(block, none / 2);
}

// What the side queue reads is not overwritten at once: half a layer longer in each of twelve layers.
TEST(Plan, LeavesRoomForTheSideQueueWhereThatIsCheap) {
  const SmallModel model(shipped_spec("gpt2-124m", {"train.micro_batch_size=1", "train.sequence_len=64"}),
                         {.all_functions = true, .fuse = true, .in_place = true});
  const ir::ValueId read_beside = storage_of(model.graph, model.graph.find("d_mlp.up"));
  const auto steps_alive = [&](const plan::Plan& plan) {
    EXPECT_EQ(plan::verify(model.graph, plan), std::vector<std::string>{});
    int steps = 0;
    for (const Interval& interval : plan.intervals.at(read_beside)) steps += interval.last - interval.first;
    return steps;
  };
  const int64_t much = int64_t{1} << 40;
  const plan::Plan tight = plan::make_plan(model.graph);
  const plan::Plan roomy = plan::roomy_plan(model.graph, {read_beside}, much);
  EXPECT_EQ(steps_alive(roomy), steps_alive(tight) + 12 * 6);
  EXPECT_EQ(steps_alive(plan::roomy_plan(model.graph, {read_beside}, roomy.arena_bytes - 1)),
            steps_alive(tight));
  EXPECT_EQ(steps_alive(plan::roomy_plan(model.graph, {}, much)), steps_alive(tight));
}

TEST(Plan, RecomputingNormedQueriesAndKeysKeepsTheProjectionAlone) {
  const auto kept = [](const passes::RecomputeChoice& recompute) {
    SmallModel model(shipped_spec("hydra-180m"), {.recompute = recompute, .fuse = true, .in_place = true});
    const plan::Plan plan = plan::make_plan(model.graph);
    return plan.arena_bytes - plan.persistent_bytes;
  };
  EXPECT_LT(kept({.qk_norm = true}), kept({}));
}

}  // namespace
}  // namespace hydrac::test
