#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "runtime/checkpoint/state.h"
#include "runtime/error.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::runtime {
namespace {

using test::message_of;

RunState example() {
  RunState state;
  state.set("step", 120);
  state.set("rng.seed", uint64_t{18446744073709551615U});
  state.set("offset", int64_t{-5});
  state.set("loss_scale", 65536.0);
  state.set("ema", 0.1);
  state.set("done", false);
  state.set("spec_hash", "8f\"3a");
  state.set("cursors", std::vector<uint64_t>{1, 2, 3});
  return state;
}

TEST(RunStateTest, IsWrittenInTheOrderOfItsKeys) {
  EXPECT_EQ(example().to_json(), R"({
  "cursors": [
    1,
    2,
    3
  ],
  "done": false,
  "ema": 0.1,
  "loss_scale": 65536.0,
  "offset": -5,
  "rng.seed": 18446744073709551615,
  "spec_hash": "8f\"3a",
  "step": 120
}
)");
  EXPECT_EQ(RunState().to_json(), "{}\n");
}

TEST(RunStateTest, ComesBackBitForBit) {
  RunState state = example();
  for (const double value : {0.1, -0.0, 5e-324, 1.7976931348623157e308, 1e22, 123456789012345678.0, 3.0}) {
    state.set("x", value);
    const RunState back = RunState::from_json(state.to_json(), "state.json");
    EXPECT_EQ(std::bit_cast<uint64_t>(back.number("x")), std::bit_cast<uint64_t>(value));
  }
  const RunState back = RunState::from_json(state.to_json(), "state.json");
  EXPECT_EQ(back.to_json(), state.to_json());
  EXPECT_EQ(back.integer("step"), 120);
  EXPECT_EQ(back.counter("step"), 120U);
  EXPECT_EQ(back.integer("offset"), -5);
  EXPECT_EQ(back.counter("rng.seed"), 18446744073709551615U);
  EXPECT_FALSE(back.boolean("done"));
  EXPECT_EQ(back.text("spec_hash"), "8f\"3a");
  EXPECT_EQ(back.counters("cursors"), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(back.has("done"));
  EXPECT_FALSE(back.has("nothing"));
}

TEST(RunStateTest, WrongTypesNameFileAndKey) {
  const RunState state = RunState::from_json(example().to_json(), "c/state.json");
  EXPECT_EQ(message_of<InputError>([&] { state.integer("x"); }),
            "c/state.json: \"x\" is missing; the checkpoint was written by another version");
  EXPECT_EQ(message_of<InputError>([&] { state.integer("rng.seed"); }),
            "c/state.json: \"rng.seed\" is not a signed 64-bit number");
  EXPECT_EQ(message_of<InputError>([&] { state.integer("done"); }),
            "c/state.json: \"done\" is not a signed 64-bit number");
  EXPECT_EQ(message_of<InputError>([&] { state.counter("offset"); }),
            "c/state.json: \"offset\" is not an unsigned 64-bit number");
  EXPECT_EQ(message_of<InputError>([&] { state.number("step"); }),
            "c/state.json: \"step\" is not a number with a fraction");
  EXPECT_EQ(message_of<InputError>([&] { state.boolean("step"); }),
            "c/state.json: \"step\" is not true or false");
  EXPECT_EQ(message_of<InputError>([&] { state.text("step"); }), "c/state.json: \"step\" is not text");
  EXPECT_EQ(message_of<InputError>([&] { state.counters("step"); }),
            "c/state.json: \"step\" is not a list of unsigned 64-bit numbers");
}

TEST(RunStateTest, DamagedFiles) {
  const auto reading = [](const char* text) {
    return message_of<InputError>([&] { RunState::from_json(text, "state.json"); });
  };
  EXPECT_EQ(reading(""), "state.json: not valid JSON: it ends too early");
  EXPECT_EQ(reading("{\"a\":\n1e999}"), "state.json: the number at line 2, column 1 is too large");
  EXPECT_EQ(reading("[1]"), "state.json: is no JSON object; the file is damaged");
  EXPECT_EQ(reading("{\"a\": {}}"), "state.json: \"a\" is not a value that a state holds");
  EXPECT_EQ(reading("{\"a\": [-1]}"), "state.json: \"a\" is not a value that a state holds");
  EXPECT_EQ(reading("{\"a\": null}"), "state.json: \"a\" is not a value that a state holds");
}

TEST(RunStateTest, NumbersThatJsonCannotHoldAreLogicErrors) {
  RunState state;
  EXPECT_EQ(message_of<std::logic_error>([&] { state.set("x", NAN); }),
            "state x is nan, which JSON cannot hold");
}

}  // namespace
}  // namespace hydrac::runtime
