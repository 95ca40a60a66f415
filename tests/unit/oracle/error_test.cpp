// What the oracle says about jobs that it cannot do: on stderr, in result.json and by its exit code.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "job_folder.h"
#include "oracle/job/error.h"
#include "oracle/job/job.h"

namespace hydrac::oracle {
namespace {

using nlohmann::json;

class Errors : public ::testing::Test {
 protected:
  Errors() {
    x = job.parameter("x", {2}, {1, 2});
    y = job.node("silu", json::object(), {x}, {2});
    job.sum_as_loss(y);
  }

  json& node(int i) { return job.root()["graph"]["regions"][0]["nodes"][i]; }

  void expect(const std::string& message) {
    job.write();
    expect_of_folder(message);
  }

  void expect_of_folder(const std::string& message) {
    const Outcome outcome = job.run();
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.status, (json{{"error", message}}));
    EXPECT_EQ(outcome.err, "hydrac-oracle: error: " + message + "\n");
    EXPECT_TRUE(outcome.values.empty());
  }

  JobFolder job;
  int x = 0, y = 0;
};

TEST_F(Errors, UnknownOp) {
  node(0)["op"] = "swish";
  expect("unknown op \"swish\"");
}

TEST_F(Errors, UnknownAttribute) {
  node(0)["attrs"]["beta"] = 2;
  expect("unknown attribute \"beta\" of op \"silu\"");
}

TEST_F(Errors, AttributeThatIsNoNumber) {
  node(0)["attrs"]["beta"] = "two";
  expect(
      "job.json: graph.regions[0].nodes[0]: attribute \"beta\" of silu must be a number, a boolean or an "
      "object of "
      "them");
}

TEST_F(Errors, MissingAttribute) {
  node(0)["op"] = "geglu";
  expect("op \"geglu\" has no attribute \"tanh\"");
}

TEST_F(Errors, WrongNumberOfInputs) {
  node(0)["inputs"].push_back(fixed_slot(x));
  expect("op \"silu\" has 2 inputs; it takes 1 (null for one left out)");
}

TEST_F(Errors, RequiredInputLeftOut) {
  node(0)["inputs"][0] = nullptr;
  expect("silu in region \"main\", layer 0: input 0 is left out");
}

TEST_F(Errors, ResultOfAnotherShape) {
  job.root()["graph"]["values"][y]["shape"] = {3};
  expect("silu in region \"main\", layer 0: the result has shape [2]; the graph says [3]");
}

TEST_F(Errors, DropoutWithoutASite) {
  node(0) = {{"op", "dropout"},
             {"attrs", {{"p", 0.5}}},
             {"inputs", {fixed_slot(x), fixed_slot(job.integer_input("rng", {}, {1}))}},
             {"outputs", {fixed_slot(y)}}};
  expect("dropout in region \"main\", layer 0: attribute \"site\" is missing");
}

TEST_F(Errors, TargetOutOfRange) {
  const int targets = job.integer_input("targets", {1}, {2});
  const int rows =
      job.node("cross_entropy", json::object(), {job.input("logits", {1, 2}, {0, 0}), targets}, {1});
  EXPECT_GT(rows, 0);
  expect("cross_entropy in region \"main\", layer 0: Target 2 is out of bounds.");
}

TEST_F(Errors, InputWithoutData) {
  node(0)["inputs"][0] = fixed_slot(job.value("late", {2}, "input"));
  expect("silu in region \"main\", layer 0: the job has no tensor for \"late\"");
}

TEST_F(Errors, ParameterWithoutData) {
  job.value("lost", {2}, "parameter", "f32", 2);
  expect("tensors.safetensors has no parameter \"lost.0\"");
}

TEST_F(Errors, ParameterOfAnotherShape) {
  job.root()["graph"]["values"][x]["shape"] = {1, 2};
  expect("tensors.safetensors: \"x.0\" has shape [2]; the graph says [1, 2]");
}

TEST_F(Errors, FloatsForIntegers) {
  job.root()["graph"]["values"][x]["dtype"] = "i32";
  expect("tensors.safetensors: \"x.0\" is F64; the graph wants integers");
}

TEST_F(Errors, SlotThatDoesNotExist) {
  node(0)["inputs"][0]["offset"] = 1;
  expect("job.json: silu in region \"main\", layer 0 touches slot 1 of \"x\", which has 1");
}

TEST_F(Errors, ReadingBeforeWriting) {
  std::swap(node(0), node(1));
  expect("job.json: mean_loss in region \"main\", layer 0 reads \"silu_1\" slot 0 before anything writes it");
}

TEST_F(Errors, WritingTwice) {
  job.root()["graph"]["regions"][0]["nodes"].push_back(node(0));
  expect("job.json: silu in region \"main\", layer 0 writes \"silu_1\" slot 0, which already has a value");
}

TEST_F(Errors, LossThatIsNoScalar) {
  job.root()["loss"]["value"] = y;
  expect("the loss has 2 elements; it must be a scalar");
}

TEST_F(Errors, LossThatNothingWrites) {
  job.root()["loss"]["value"] = x;
  expect("job.json: loss: no node writes value \"x\"");
}

TEST_F(Errors, MembersOfTheJob) {
  const json good = job.root();
  const auto expect_with = [&](const char* pointer, const json& value, const std::string& message) {
    SCOPED_TRACE(pointer);
    job.root() = good;
    job.root()[json::json_pointer(pointer)] = value;
    job.write();
    try {
      read_job(job.path() / "job.json");
      ADD_FAILURE() << "no error";
    } catch (const JobError& e) {
      EXPECT_EQ(e.what(), "job.json: " + message);
    }
  };
  expect_with("/z_loss", 1, "z_loss is not a member that the oracle knows");
  expect_with("/dtype", "bf16", "dtype is \"bf16\"; it must be float64 or float32");
  expect_with("/ops", "fast", "ops is \"fast\"; it must be reference or peer");
  expect_with("/autocast", "fp8", "autocast is \"fp8\"; it must be bf16 or fp16");
  expect_with("/steps", 0, "steps must be an integer from 1 to 1000000");
  expect_with("/seed", 4294967296, "seed must be an integer from 0 to 4294967295");
  expect_with("/decay", {"w"}, "decay: there is no value \"w\"");
  expect_with("/dump", {1}, "dump must hold strings");
  expect_with("/loss/value", 99, "loss.value: there is no value 99");
  expect_with("/optimizer/name", "adam",
              "optimizer.name is \"adam\"; it must be one of adamw, lion, sgd, muon");
  expect_with("/optimizer/name", "adamw", "optimizer.eps is missing");
  expect_with("/optimizer/nesterov", true, "optimizer.nesterov is not a member that the oracle knows");
  expect_with(
      "/lr_scheduler/name", "step",
      "lr_scheduler.name is \"step\"; it must be one of constant, linear, cosine, wsd, adaptive, function");
  expect_with("/lr_scheduler/name", "wsd", "lr_scheduler.decay_steps is missing");
  expect_with("/graph/values/0/shape", {0}, "graph.values[0].shape must hold positive integers");
  expect_with("/graph/values/1/id", 0, "graph.values[1].id 0 is taken by an earlier value");
  expect_with("/graph/values/1/name", "x", "graph.values[1].name \"x\" is taken by an earlier value");
  expect_with(
      "/graph/values/0/role", "weight",
      "graph.values[0].role is \"weight\"; it must be one of parameter, frozen, input, constant, activation");
  expect_with("/graph/regions/0/nodes/0/outputs", json::array(),
              "graph.regions[0].nodes[0].outputs must name exactly one value");
  expect_with("/graph/regions/0/nodes/0/inputs/0/slot", "all",
              "graph.regions[0].nodes[0].inputs[0].slot is \"all\"; it must be one of layer, fixed");
  expect_with("/graph/regions/0/nodes/0", 5, "graph.regions[0].nodes[0] must be an object");
}

TEST_F(Errors, AutocastOfThePeer) {
  job.root()["ops"] = "peer";
  job.root()["autocast"] = "bf16";
  expect("job.json: autocast casts around the reference's ops, not the peer's");
}

TEST_F(Errors, JobThatIsNoJson) {
  job.write();
  std::ofstream(job.path() / "job.json") << "{\"dtype\": ";
  const Outcome outcome = job.run();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.status["error"].get<std::string>().rfind("job.json: not JSON: ", 0), 0u);
}

TEST_F(Errors, FolderWithoutAJob) {
  expect_of_folder("job.json: cannot be opened");
}

TEST_F(Errors, FolderWithoutTensors) {
  job.write();
  std::filesystem::remove(job.path() / "tensors.safetensors");
  expect_of_folder("tensors.safetensors: cannot be opened");
}

// A failed run leaves no results of an earlier one behind.
TEST_F(Errors, ForgetEarlierResults) {
  ASSERT_EQ(job.write_and_run().exit_code, 0);
  node(0)["op"] = "swish";
  expect("unknown op \"swish\"");
}

TEST_F(Errors, UnknownVerb) {
  const Outcome outcome = job.write_and_run("check");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err.rfind("usage: hydrac-oracle VERB JOBDIR [--device cpu|cuda|auto]\n", 0), 0u);
}

}  // namespace
}  // namespace hydrac::oracle
