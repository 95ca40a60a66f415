// Ranks that share layers train as one process, but for the order of sums: the same losses, weights and
// moments within what fp32 may lose, and the same bits at every run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/checkpoint/safetensors.h"
#include "tests/e2e/cli.h"

namespace hydrac::e2e {
namespace {

using test::slurp;

// Grouped queries, swiglu, rmsnorm, rope, dropout of the stream. Attention's is each rank's own.
const Words kLlama = {"base.yaml",
                      "train.lr_scheduler.name=constant",
                      "model.attention_dropout=0",
                      "model.num_attention_heads=8",
                      "model.num_key_value_heads=4",
                      "train.max_grad_norm=0.1",
                      "sample.max_new_tokens=8"};
const Words kGpt2 = {"base.yaml",
                     "train.lr_scheduler.name=constant",
                     "model.attention_dropout=0",
                     "model.num_key_value_heads=4",
                     "model.norm=layernorm",
                     "model.norm_bias=true",
                     "model.position=learned",
                     "model.max_position_embeddings=16",
                     "model.hidden_act=gelu_tanh",
                     "model.attention_bias=true",
                     "model.attention_output_bias=true",
                     "model.mlp_bias=true",
                     "model.tie_word_embeddings=true",
                     "train.max_grad_norm=0.1"};

Words by(int tensor, int data = 1, int micro_batches = 2) {
  return {fmt::format("parallel.tensor={}", tensor), fmt::format("parallel.data={}", data),
          fmt::format("train.gradient_accumulation_steps={}", micro_batches)};
}

// By `how` in runs/`run`, up to step `steps`.
void train(const Workplace& place, const Words& base, const Words& how, const std::string& run,
           int steps = 12) {
  const Outcome outcome =
      place.run(with(with(base, how), {"output.dir=runs/" + run, fmt::format("train.max_steps={}", steps)}));
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

std::vector<float> floats_of(const runtime::SafetensorsReader& file, const runtime::TensorEntry& tensor) {
  const std::span<const std::byte> bytes = file.bytes(tensor);
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

// The largest |x - y| / |y| of two files' tensors, which must have the same names and shapes.
double difference(const fs::path& x_file, const fs::path& y_file) {
  const runtime::SafetensorsReader x(x_file), y(y_file);
  EXPECT_EQ(x.tensors().size(), y.tensors().size());
  double largest = 0;
  for (const runtime::TensorEntry& tensor : y.tensors()) {
    EXPECT_EQ(x.at(tensor.name).shape, tensor.shape) << tensor.name;
    const std::vector<float> a = floats_of(x, x.at(tensor.name)), b = floats_of(y, tensor);
    double square = 0, whole = 0;
    for (size_t i = 0; i < b.size(); ++i) {
      square += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
      whole += double{b[i]} * b[i];
    }
    largest = std::max(largest, std::sqrt(square / std::max(whole, 1e-30)));
  }
  return largest;
}

void expect_alike(const fs::path& a, const fs::path& b, double weights, double moments) {
  const char* file = fs::exists(b / "model.safetensors") ? "model.safetensors" : "adapter_model.safetensors";
  EXPECT_LT(difference(a / file, b / file), weights) << a;
  EXPECT_LT(difference(a / "optimizer.safetensors", b / "optimizer.safetensors"), moments) << a;
}

void expect_same_bytes(const fs::path& a, const fs::path& b) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"})
    EXPECT_TRUE(slurp(a / name) == slurp(b / name)) << name << " of " << a << " differs";
}

// Losses, norms and validation losses of every step.
std::vector<double> numbers_of(const fs::path& run) {
  std::istringstream lines(slurp(run / "metrics.jsonl"));
  std::vector<double> numbers;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    for (const char* key : {"loss", "grad_norm", "eval_loss"})
      if (record.contains(key) && record[key].is_number()) numbers.push_back(record[key].get<double>());
  }
  return numbers;
}

void expect_same_numbers(const fs::path& a, const fs::path& b) {
  const std::vector<double> x = numbers_of(a), y = numbers_of(b);
  ASSERT_EQ(x.size(), y.size());
  ASSERT_GE(x.size(), 24u);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 2e-5 * std::abs(y[i])) << i;
}

TEST(Tensor, RanksTrainAsOneProcess) {
  const Workplace place;
  for (const auto& [model, base] : {std::pair("llama", kLlama), std::pair("gpt2", kGpt2)}) {
    SCOPED_TRACE(model);
    const std::string one = fmt::format("{}-1", model);
    train(place, base, by(1), one);
    for (const int ranks : {2, 4}) {
      const std::string run = fmt::format("{}-{}", model, ranks);
      train(place, base, by(ranks), run);
      expect_alike(place / ("runs/" + run) / "checkpoint-2", place / ("runs/" + one) / "checkpoint-2", 1e-4,
                   1e-4);
      expect_alike(place / ("runs/" + run) / "checkpoint-12", place / ("runs/" + one) / "checkpoint-12", 1e-4,
                   1e-3);
      expect_same_numbers(place / ("runs/" + run), place / ("runs/" + one));
    }
  }
}

// Norms of queries and keys, whose weights' gradients are sums over ranks; a head of its own, softcap, label
// smoothing; adapters, frozen layers; windows; and the other optimizers.
TEST(Tensor, RanksTrainAsOneProcessWhateverTheModel) {
  const Workplace place;
  const std::vector<Words> variants = {
      {"model.qk_norm=true", "model.tie_word_embeddings=false", "model.logit_softcap=5",
       "train.label_smoothing=0.1", "train.optimizer.name=lion"},
      {"adapter.type=lora", "adapter.r=4", "train.optimizer.learning_rate=0.01",
       "adapter.target_modules=[q_proj, v_proj, gate_proj, down_proj]"},
      {"train.lr_scheduler.name=adaptive"},  // whose state is scalars beside moments
      {"train.freeze=[model.layers.0.mlp.*, model.layers.1.self_attn.*]"},
      {"optimizations.recompute=block", "train.optimizer.name=sgd", "train.max_grad_norm=0",
       "model.sliding_window=4", "data.document_mask=false"},
      {"adapter.type=lora", "adapter.dropout=0", "optimizations.recompute=[norm]",
       "model.attention_bias=true", "model.attention_output_bias=true", "model.mlp_bias=true"},
      {"model.block=parallel", "model.norm=layernorm", "model.mlp_bias=true"},
      {"model.block=parallel_one_norm", "adapter.type=lora", "adapter.r=4"},
  };
  int number = 0;
  for (const Words& variant : variants) {
    SCOPED_TRACE(variant[0]);
    const Words base = with(kLlama, variant);
    const std::string one = fmt::format("one-{}", number), two = fmt::format("two-{}", number++);
    train(place, base, by(1), one, 4);
    train(place, base, by(2), two, 4);
    expect_alike(place / "runs" / two / "checkpoint-4", place / "runs" / one / "checkpoint-4", 1e-4, 1e-3);
  }
}

// An input and heads of which every rank has all: their gradients are no terms of a sum.
TEST(Tensor, RanksTrainAsOneProcessOnNumbers) {
  const Workplace place;
  std::string csv = "signal,sign\n";
  for (int row = 0; row < 600; ++row)
    csv += fmt::format("{},{}\n", row * 37 % 201 - 100, row * 37 % 201 > 100 ? 1 : 0);
  test::spill(place / "rows.csv", csv);
  test::spill(
      place / "series.yaml",
      "name: series\ntarget: cpu\nmodel: {input: series, head: regression, num_labels: 1, hidden_size: 32, "
      "num_hidden_layers: 2, num_attention_heads: 4, dropout: 0.1, attention_output_bias: true}\n"
      "data: {path: rows.csv, features: [signal], target: sign, val_fraction: 0.2}\n"
      "train: {sequence_len: 8, micro_batch_size: 4, max_steps: 12, save_steps: 2, save_total_limit: 0, "
      "lr_scheduler: {name: constant}}\noptimizations: {threads: 1}\n");
  for (const auto& [head, words] :
       {std::pair("regression", Words{}),
        std::pair("classes", Words{"model.head=classification", "model.num_labels=2"})}) {
    SCOPED_TRACE(head);
    const Words base = with({"series.yaml"}, words);
    const std::string one = fmt::format("{}-1", head), two = fmt::format("{}-2", head);
    train(place, base, by(1), one, 4);
    train(place, base, by(2), two, 4);
    expect_alike(place / "runs" / two / "checkpoint-4", place / "runs" / one / "checkpoint-4", 1e-4, 1e-3);
  }
}

// Recomputation changes no bits; every run and every resume has those of the first.
TEST(Tensor, BitsAreThoseOfEveryRun) {
  const Workplace place;
  const Words base = with(kLlama, {"model.attention_dropout=0.1"});
  train(place, base, by(2), "first");
  train(place, with(base, {"optimizations.recompute=block"}), by(2), "again");
  train(place, base, by(2), "resumed", 6);
  train(place, with(base, {"--resume", "--exact"}), by(2), "resumed");
  for (const char* run : {"again", "resumed"})
    expect_same_bytes(place / "runs" / run / "checkpoint-12", place / "runs/first/checkpoint-12");
}

TEST(Tensor, ACheckpointIsThatOfOneProcess) {
  const Workplace place;
  train(place, kLlama, by(1), "one");
  train(place, kLlama, by(2), "mixed", 4);
  train(place, with(kLlama, {"--resume"}), by(1), "mixed", 8);
  train(place, with(kLlama, {"--resume"}), by(4), "mixed", 12);
  expect_alike(place / "runs/mixed/checkpoint-12", place / "runs/one/checkpoint-12", 1e-4, 1e-3);
  const Outcome sample = place.run({"sample", (place / "runs/mixed/checkpoint-12").string()});
  EXPECT_EQ(sample.code, 0) << sample.err;
}

// Two groups of two, and one process that accumulates what the groups compute.
TEST(Tensor, GroupsShareMicroBatches) {
  const Workplace place;
  train(place, kLlama, by(1, 1, 2), "one");
  train(place, kLlama, by(2, 2, 1), "groups");
  expect_alike(place / "runs/groups/checkpoint-12", place / "runs/one/checkpoint-12", 1e-4, 1e-3);
  expect_same_numbers(place / "runs/groups", place / "runs/one");
}

// The groups share the update too: not a bit is other, and a checkpoint is that of one process, from which
// any other ranks continue. Rows that do not divide, and biases: vectors of which ranks have parts.
TEST(Tensor, GroupsShareTheUpdate) {
  const Workplace place;
  for (const auto& [model, base] :
       {std::pair("llama", with(kLlama, {"model.vocab_size=259", "model.tie_word_embeddings=false",
                                         "model.qk_norm=true"})),
        std::pair("gpt2", kGpt2)}) {
    SCOPED_TRACE(model);
    const std::string whole = fmt::format("{}-whole", model), shared = fmt::format("{}-shared", model),
                      mixed = fmt::format("{}-mixed", model);
    const Words zero = with(by(2, 2, 1), {"parallel.zero=1"});
    train(place, base, by(2, 2, 1), whole);
    train(place, base, zero, shared);
    train(place, base, by(2, 2, 1), mixed, 4);
    train(place, with(base, {"--resume", "--exact"}), zero, mixed, 8);
    train(place, with(base, {"--resume", "--exact"}), by(2, 2, 1), mixed);
    for (const std::string& run : {shared, mixed})
      expect_same_bytes(place / "runs" / run / "checkpoint-12", place / "runs" / whole / "checkpoint-12");
    train(place, with(base, {"--resume"}), by(1, 1, 2), shared, 13);
  }
}

// Ranks that do not divide a micro-batch's tokens have norms and the residual stream whole.
TEST(Tensor, TokensThatDoNotDivideAreOnEveryRank) {
  const Workplace place;
  const Words odd = {"train.sequence_len=15", "train.micro_batch_size=1", "model.max_position_embeddings=15"};
  for (const auto& [model, base] :
       {std::pair("llama", with(kLlama, odd)), std::pair("gpt2", with(kGpt2, odd))}) {
    SCOPED_TRACE(model);
    const std::string one = fmt::format("{}-1", model), two = fmt::format("{}-2", model);
    train(place, base, by(1), one, 4);
    train(place, base, by(2), two, 4);
    expect_alike(place / "runs" / two / "checkpoint-4", place / "runs" / one / "checkpoint-4", 1e-4, 1e-3);
    const Outcome whole = place.run(with({"explain"}, with(base, by(2))));
    EXPECT_NE(
        whole.out.find("norms and the residual stream are whole on each rank, because 2 ranks do not divide "
                       "the 15 tokens of a micro-batch"),
        std::string::npos)
        << whole.out;
  }
  const Outcome divided = place.run(with({"explain"}, with(kLlama, by(2))));
  EXPECT_NE(
      divided.out.find("norms and the residual stream are of 16 of a micro-batch's tokens on each rank"),
      std::string::npos)
      << divided.out;
}

TEST(Tensor, CheckSaysWhatARankHolds) {
  const Workplace place;
  const auto checked = [&](const Words& words) {
    const Outcome outcome = place.run(with(with({"check"}, with(kLlama, words)), {"--json"}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  };
  const nlohmann::json one = checked(by(1)), two = checked(by(2));
  EXPECT_EQ(one["parameters"], two["parameters"]);
  const auto bytes = [](const nlohmann::json& of, const char* role) {
    return of["memory"]["bytes"][role].get<double>();
  };
  for (const char* role : {"parameter", "gradient", "optimizer_state"})
    EXPECT_LT(bytes(two, role), 0.55 * bytes(one, role)) << role;
  EXPECT_EQ(two["ranks"]["count"], 2);
  EXPECT_EQ(two["ranks"]["tensor"], 2);
  // Of 2 micro-batches: the embedding, twice two layers in both directions, the head's input, each as many
  // bytes as [2,16,64] has, the half of them a sum's and the half all rows'; of each token lse and target;
  // the gradients of the norms' 5 weights, and the norm of all.
  EXPECT_EQ(two["ranks"]["bytes_sent_per_step"],
            2 * (10 * 2 * 16 * 64 * 4 + 2 * 2 * 16 * 4) + 5 * 64 * 4 + 4);
}

}  // namespace
}  // namespace hydrac::e2e
