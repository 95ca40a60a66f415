// A run that begins with the weights of a folder, and folders that hold other weights than the model's.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/checkpoint/float_formats.h"
#include "runtime/checkpoint/tensor_io.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run/run_start.h"
#include "train_test.h"

namespace hydrac::runtime {
namespace {

using test::message_of;
using test::slurp;
using test::spill;
using test::TempDir;

// Tensors by name, each with its shape and its first element; the others count up from it by ones.
struct Stored {
  std::string name;
  std::vector<int64_t> shape;
  float first;
  SafetensorsDtype dtype = SafetensorsDtype::f32;
};

void save(const std::filesystem::path& path, const std::vector<Stored>& tensors) {
  FileWriter file(path);
  std::vector<TensorToWrite> entries;
  for (const Stored& stored : tensors) {
    TensorToWrite entry{stored.name, stored.dtype, stored.shape, {}};
    int64_t count = 1;
    for (const int64_t size : stored.shape) count *= size;
    entry.write = [stored, count](FileWriter& out) {
      std::vector<float> values(static_cast<size_t>(count));
      for (size_t i = 0; i < values.size(); ++i) values[i] = stored.first + static_cast<float>(i);
      std::vector<std::byte> bytes(values.size() * static_cast<size_t>(dtype_bytes(stored.dtype)));
      if (is_float(stored.dtype)) encode_floats(values, stored.dtype, bytes.data());
      out.write(bytes);
    };
    entries.push_back(std::move(entry));
  }
  write_safetensors(file, std::move(entries));
  file.close_durably();
}

class InitialWeights : public testing::Test {
 protected:
  InitialWeights() { program_.initialize(); }
  void save_whole(const std::vector<Stored>& tensors) { save(dir_ / "model.safetensors", tensors); }
  void fill() { WeightFiles(dir_.path()).fill(program_); }
  std::string problem() {
    return message_of<InputError>([&] { fill(); });
  }
  std::string of_the_model(const std::string& problems) const {
    return dir_.path().string() + ": these are not the weights of the model:" + problems;
  }

  TempDir dir_;
  FakeProgram program_;
};

constexpr float kHalf = 0.5f;
const Stored kWeight{"weight", {4, 3}, 1}, kBias{"bias", {2}, kHalf};

// The program keeps the matrix as [3, 4].
const std::vector<float> kTransposed = {1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12};

TEST_F(InitialWeights, OfEveryFloatingPointTypeFillTheProgram) {
  using Dtype = SafetensorsDtype;
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    program_.initialize();
    save_whole({{"weight", {4, 3}, 1, dtype}, {"bias", {2}, kHalf, dtype}});
    fill();
    EXPECT_EQ(program_.weight, kTransposed) << dtype_name(dtype);
    EXPECT_EQ(program_.bias, (std::vector<float>{0.5f, 1.5f})) << dtype_name(dtype);
  }
}

TEST_F(InitialWeights, LieInTheFilesOfAnIndex) {
  save(dir_ / "a.safetensors", {kWeight});
  save(dir_ / "b.safetensors", {kBias});
  spill(
      dir_ / "model.safetensors.index.json",
      R"({"metadata": {"total_size": 56}, "weight_map": {"weight": "a.safetensors", "bias": "b.safetensors"}})");
  fill();
  EXPECT_EQ(program_.weight, kTransposed);
  EXPECT_EQ(WeightFiles(dir_.path()).description(), dir_.path().string() + ": 2 tensors of F32 in 2 files");
}

TEST_F(InitialWeights, OfOneFileCanBeNamed) {
  save(dir_ / "x.safetensors", {kWeight, kBias});
  WeightFiles(dir_ / "x.safetensors").fill(program_);
  EXPECT_EQ(program_.weight, kTransposed);
}

TEST_F(InitialWeights, MayHoldConstantsOfModulesAndBiasesOfZeros) {
  save_whole({kWeight,
              kBias,
              {"h.0.attn.bias", {1, 1, 2, 2}, 1},
              {"h.0.attn.masked_bias", {}, -1e4f},
              {"model.layers.0.self_attn.rotary_emb.inv_freq", {2}, 1},
              {"o_proj.bias", {1}, 0}});
  fill();
  EXPECT_EQ(program_.weight, kTransposed);
}

TEST_F(InitialWeights, ThatDoNotFitAreNamedAllAtOnce) {
  save_whole({{"weight", {3, 4}, 1}, {"extra.weight", {2}, 1}});
  const std::vector<float> before = program_.weight;
  EXPECT_EQ(problem(),
            of_the_model("\n  missing: \"bias\""
                         "\n  of another shape or type: \"weight\" is [3, 4] in the file and [4, 3] in "
                         "the model\n  not of this model: \"extra.weight\""));
  EXPECT_EQ(program_.weight, before);
  save_whole({kWeight, {"bias", {2}, 1, SafetensorsDtype::i32}});
  EXPECT_EQ(problem(),
            of_the_model("\n  of another shape or type: \"bias\" is I32, which is neither F32, F64, "
                         "BF16 nor F16"));
  std::vector<Stored> many = {kWeight, kBias};
  for (int i = 0; i < 9; ++i) many.push_back({fmt::format("extra.{}", i), {1}, 1});
  save_whole(many);
  EXPECT_EQ(problem(),
            of_the_model("\n  not of this model: \"extra.0\", \"extra.1\", \"extra.2\", \"extra.3\", "
                         "\"extra.4\" and 4 more"));
}

TEST_F(InitialWeights, OfOtherFormatsSayWhatToDo) {
  EXPECT_EQ(problem(),
            dir_.path().string() + ": there is neither model.safetensors nor model.safetensors.index.json");
  spill(dir_ / "pytorch_model.bin", "x");
  EXPECT_EQ(problem(), dir_.path().string() +
                           ": there is neither model.safetensors nor model.safetensors.index.json; "
                           "pytorch_model.bin can run code as it is read: let transformers read and save it "
                           "(save_pretrained)");
  spill(dir_ / "model.safetensors", "x");
  EXPECT_EQ(problem(),
            (dir_ / "model.safetensors").string() + ": has 1 bytes, too few for a safetensors file");
}

TEST_F(InitialWeights, OfAnIndexThatDoesNotFitItsFilesAreRefused) {
  const std::string index = (dir_ / "model.safetensors.index.json").string();
  const auto with = [&](const std::string& json) {
    spill(index, json);
    return problem();
  };
  save(dir_ / "a.safetensors", {kWeight});
  save(dir_ / "b.safetensors", {kWeight, kBias});
  EXPECT_EQ(with("[]"), index + ": it is not a JSON object");
  EXPECT_EQ(with("{}"), index + ": \"weight_map\" is missing; it must be an object");
  EXPECT_EQ(with(R"({"weight_map": {}})"), index + ": \"weight_map\" is empty");
  EXPECT_EQ(with(R"({"weight_map": {"weight": "../a.safetensors"}})"),
            index + ": the file of \"weight\" is no plain file name");
  EXPECT_EQ(with(R"({"weight_map": {"weight": 7}})"),
            index + ": the file of \"weight\" is no plain file name");
  EXPECT_EQ(with(R"({"weight_map": {"bias": "a.safetensors"}})"),
            index + ": a.safetensors has no tensor \"bias\"");
  EXPECT_EQ(with(R"({"weight_map": {"weight": "a.safetensors", "bias": "b.safetensors"}})"),
            (dir_ / "b.safetensors").string() + ": the tensor \"weight\" is in " +
                (dir_ / "a.safetensors").string() + " too");
  EXPECT_EQ(with(R"({"weight_map": {"weight": "gone.safetensors"}})"),
            "cannot read " + (dir_ / "gone.safetensors").string() + ": No such file or directory");
  EXPECT_EQ(with("{"), index + ": not valid JSON: it ends too early");
}

TEST_F(InitialWeights, ThatDoNotFitLeaveAnEarlierRunWhereItIs) {
  save_whole({kWeight});
  const TempDir runs;
  TrainOptions options = small_run(runs / "run");
  const std::filesystem::path earlier = run(options).checkpoint;
  options.weights = dir_.path();
  EXPECT_NE(message_of<InputError>([&] { run(options); }).find("these are not the weights of the model"),
            std::string::npos);
  options.weights.clear();
  std::filesystem::rename(dir_ / "model.safetensors", dir_ / "adapter_model.safetensors");
  options.adapter_weights = dir_.path();
  EXPECT_EQ(message_of<InputError>([&] { run(options); }),
            (dir_ / "adapter_model.safetensors").string() +
                ": has no tensor \"bias\"; it belongs to another model");
  EXPECT_TRUE(std::filesystem::exists(earlier / "model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(runs / "run.1"));
}

// A run that is resumed has weights of its own.
TEST_F(InitialWeights, BeginARunAndAreNotReadByAResumedOne) {
  save_whole({kWeight, kBias});
  const TempDir runs;
  TrainOptions options = small_run(runs / "run");
  options.max_steps = 5;
  const std::string random = slurp(run(options).checkpoint / "model.safetensors");
  options.weights = dir_.path();
  check_run(options);
  EXPECT_NE(slurp(run(options).checkpoint / "model.safetensors"), random);
  std::filesystem::remove(dir_ / "model.safetensors");
  options.max_steps = 12;
  options.resume = Resume::required;
  check_run(options);
  EXPECT_EQ(run(options).last_step, 12);
  options.resume = Resume::never;
  EXPECT_EQ(message_of<InputError>([&] { check_run(options); }),
            dir_.path().string() + ": there is neither model.safetensors nor model.safetensors.index.json");
}

}  // namespace
}  // namespace hydrac::runtime
