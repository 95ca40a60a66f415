// Generation with a cache of keys and values says what the full context says, for every kind of model; and a
// text does not depend on those beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "driver/compile.h"
#include "plan/plan.h"
#include "runtime/train/generation/generate.h"
#include "runtime/train/generation/next_logits.h"
#include "spec/load.h"
#include "targets/cpu/executor.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::targets {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kContext = 48;
constexpr const char* kCompressed = "attention_kind: ccgqa, num_key_value_heads: 2, head_dim: 8";

struct Family {
  const char* name;
  const char* model;  // behind the sizes that all have
  std::vector<std::string> overrides = {};
};

void PrintTo(const Family& family, std::ostream* out) {
  *out << family.name;
}

// Weights are large, so that logits differ by more than rounding.
spec::Spec spec_of(const Family& family) {
  const std::string text =
      std::string("name: family\ntarget: cpu\nmodel: {hidden_size: 64, num_hidden_layers: 3, ") +
      "num_attention_heads: 4, intermediate_size: 64, vocab_size: 256, initializer_range: 0.2, " +
      family.model + "}\ndata: {path: none, tokenizer: byte}\n" +
      "train: {sequence_len: 48, micro_batch_size: 1, max_steps: 1}\n" + "optimizations: {threads: 2}\n";
  diag::Diagnostics diagnostics;
  std::optional<spec::Spec> spec = spec::load_spec_text("family.yaml", text, family.overrides, diagnostics);
  if (!spec) throw std::runtime_error(diagnostics.render());
  return *spec;
}

// All tests share compiled kernels.
class Generation : public testing::TestWithParam<Family> {
 protected:
  static void SetUpTestSuite() { kernels_ = new test::TempDir; }
  static void TearDownTestSuite() {
    delete kernels_;
    kernels_ = nullptr;
  }

  CpuProgram& program(const std::optional<models::Generation>& generation) {
    return program(generation, spec_);
  }
  CpuProgram& program(const std::optional<models::Generation>& generation, const spec::Spec& spec) {
    driver::CompileOptions options;
    options.threads = 2;
    options.generation = generation;
    programs_.push_back(
        std::make_unique<CpuProgram>(driver::compile(spec, options), kernels_->path(), blas_));
    programs_.back()->steps().initialize();
    return *programs_.back();
  }

  const spec::Spec spec_ = spec_of(GetParam());
  runtime::RecordedChoices blas_;  // empty: the library that is faster here and now
  std::vector<std::unique_ptr<CpuProgram>> programs_;

 private:
  static inline test::TempDir* kernels_ = nullptr;
};

constexpr models::Generation kCache{3, 2, kContext};

// Keeps ids instead of text: bytes from 1 to 255 are their own ids, and 0 would end a text.
struct Texts {
  std::vector<runtime::TextRequest> requests;
  runtime::GenerateOptions options;
  std::vector<runtime::Reply> replies;
  runtime::GenerateCounts counts;

  void generate(runtime::StepProgram& program) {
    static const auto tokenizer = runtime::make_byte_tokenizer();
    replies.assign(requests.size(), {});
    runtime::TextEvents events;
    events.on_end = [&](size_t request, const runtime::Reply& reply) { replies[request] = reply; };
    counts = generate_batch(program, *tokenizer, requests, options, events);
  }
};

Texts some_texts(double temperature, int64_t new_tokens) {
  Texts texts;
  const char* prompts[] = {"a", "to be or not", "the quick brown fox", "x9", "lorem ipsum dolor sit ame"};
  uint64_t seed = 11;
  for (const char* prompt : prompts) {
    runtime::TextRequest request{{}, seed++};
    for (const char* c = prompt; *c != 0; ++c) request.prompt.push_back(static_cast<unsigned char>(*c));
    texts.requests.push_back(request);
  }
  texts.options.max_new_tokens = new_tokens;
  texts.options.sampling.temperature = temperature;
  return texts;
}

void expect_equal(const Texts& a, const Texts& b) {
  ASSERT_EQ(a.replies.size(), b.replies.size());
  for (size_t i = 0; i < a.replies.size(); ++i) {
    EXPECT_EQ(a.replies[i].text, b.replies[i].text) << "text " << i;
    EXPECT_EQ(a.replies[i].new_tokens, b.replies[i].new_tokens) << "text " << i;
    EXPECT_EQ(a.replies[i].end, b.replies[i].end) << "text " << i;
  }
}

// Of 60 tokens, so that they grow past the context and go on with their end in view.
TEST_P(Generation, WithACacheIsThatOfTheFullContext) {
  runtime::StepProgram &whole = program(std::nullopt), &cached = program(kCache);
  EXPECT_EQ(cached.facts().cache.sequences, 3);
  EXPECT_EQ(cached.facts().context_length, kContext);
  for (const double temperature : {0.0, 1.0}) {
    Texts expected = some_texts(temperature, 60), found = expected;
    expected.generate(whole);
    found.generate(cached);
    expect_equal(found, expected);
    EXPECT_GT(found.counts.decode_steps, 0);
  }
}

// Their logarithms of probabilities, at each token of a text.
TEST_P(Generation, LogProbabilitiesAgree) {
  runtime::NextLogits whole(program(std::nullopt)), cached(program(kCache));
  const auto log_probabilities = [](std::span<const float> logits) {
    double sum = 0;
    const double largest = *std::max_element(logits.begin(), logits.end());
    for (const float logit : logits) sum += std::exp(logit - largest);
    std::vector<double> result;
    for (const float logit : logits) result.push_back(logit - largest - std::log(sum));
    return result;
  };
  Ids ids;
  for (int32_t i = 0; i < kContext; ++i) ids.push_back(1 + i * 37 % 255);
  for (size_t length = 5; length < ids.size(); ++length) {
    const std::span<const int32_t> seen = std::span(ids).first(length);
    runtime::LogitRows rows;
    if (length == 5) {
      const runtime::Prompt prompt{1, seen};
      rows = cached.prefill({&prompt, 1});
    } else {
      const Ids tokens = {7, seen.back(), 9}, positions = {0, static_cast<int32_t>(length) - 1, 0};
      rows = cached.decode(tokens, positions);
    }
    const std::vector<double> found = log_probabilities(rows.row(length == 5 ? 0 : 1)),
                              expected = log_probabilities(
                                  whole.next_logits(seen, static_cast<int64_t>(length) - 1));
    ASSERT_EQ(found.size(), expected.size());
    const double scale = -*std::ranges::min_element(expected);
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-5 * scale) << "length " << length;
  }
}

TEST_P(Generation, ATextDoesNotDependOnThoseBesideIt) {
  runtime::StepProgram& program = this->program(kCache);
  Texts all = some_texts(0.9, 20);
  all.generate(program);
  for (size_t i = 0; i < all.requests.size(); ++i) {
    Texts alone = all;
    alone.requests = {all.requests[i]};
    alone.generate(program);
    EXPECT_EQ(alone.replies[0].text, all.replies[i].text);
  }
}

// The logits' bits are those of any other place in the batch, whatever lies in the others.
TEST_P(Generation, BitsDoNotDependOnTheBatch) {
  runtime::NextLogits program(this->program(kCache));
  const Ids prompt = {50, 60, 70}, other = {3, 200, 9, 4, 77};
  std::vector<float> expected;
  for (int32_t row = 0; row < 3; ++row) {
    for (int32_t r = 0; r < 3; ++r) {
      const Ids tokens = r == row ? prompt : Ids(other.begin() + row, other.end());
      const runtime::Prompt one{r, tokens};
      program.prefill({&one, 1});
    }
    Ids tokens(3, 5 * row), positions(3, 5 - row);
    tokens[static_cast<size_t>(row)] = 33;
    positions[static_cast<size_t>(row)] = 3;
    const auto logits = program.decode(tokens, positions).row(row);
    if (row == 0) expected.assign(logits.begin(), logits.end());
    EXPECT_TRUE(std::equal(logits.begin(), logits.end(), expected.begin())) << "row " << row;
  }
}

// The logits of all tokens of the batch evaluated last, which training's forward pass is, [T,V].
std::vector<float> evaluated_logits(CpuProgram& program) {
  const ir::Graph& graph = program.compiled().graph;
  for (const ir::Region& region : graph.function("evaluate").regions) {
    for (const ir::Node& node : region.nodes) {
      if (region.name != "head" || node.op != ir::Op::gemm) continue;
      std::vector<float> logits(static_cast<size_t>(element_count(graph.value(node.outputs[0]).shape)));
      program.copy_out(plan::address(graph, program.compiled().plan, node.outputs[0], 0),
                       std::as_writable_bytes(std::span(logits)));
      return logits;
    }
  }
  throw std::logic_error("evaluate has no logits");
}

// With oneDNN: OpenBLAS's Haswell kernels round a row by its place among the others.
class TrainingForward : public Generation {
 protected:
  TrainingForward() { blas_.set("blas", "library", "onednn"); }
};

// To the bit, where the matmuls of a step have as many rows as those of the batch: here 48.
TEST_P(TrainingForward, HasTheLogitsOfTokenByToken) {
  CpuProgram& program = this->program(models::Generation{kContext, 1, kContext});
  runtime::Batch batch;
  for (int32_t i = 0; i < kContext; ++i) batch.tokens.push_back(1 + i * 37 % 255);
  batch.targets.assign(batch.tokens.begin() + 1, batch.tokens.end());
  batch.targets.push_back(0);
  batch.target_count = kContext;
  program.evaluate(batch);
  const std::vector<float> expected = evaluated_logits(program);
  constexpr int32_t given = 5, row = 29;
  const runtime::Prompt prompt{row, std::span(batch.tokens).first(given)};
  runtime::NextLogits logits(program);
  logits.prefill({&prompt, 1});
  for (int32_t t = given; t < kContext; ++t) {
    Ids tokens(kContext, 7), positions(kContext, 0);
    tokens[row] = batch.tokens[static_cast<size_t>(t)];
    positions[row] = t;
    const auto found = logits.decode(tokens, positions).row(row);
    ASSERT_EQ(found.size(), 256u);
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(found[i], expected[static_cast<size_t>(t) * found.size() + i]) << "token " << t;
  }
}

// A step that comes after another one of the same text, whose token was not kept, finds all as it was.
TEST_P(Generation, AStepCanBeDoneAgain) {
  runtime::NextLogits program(this->program(kCache));
  const Ids prompt = {50, 60, 70, 80};
  const auto begin = [&] {
    const runtime::Prompt one{1, prompt};
    program.prefill({&one, 1});
  };
  const auto step = [&](int32_t token, int32_t position) {
    const auto logits = program.decode(Ids{9, token, 9}, Ids{0, position, 0}).row(1);
    return std::vector<float>(logits.begin(), logits.end());
  };
  begin();
  const std::vector<float> first = step(33, 4), second = step(34, 5), third = step(35, 6);
  begin();
  EXPECT_EQ(step(33, 4), first);
  EXPECT_NE(step(99, 5), second);
  EXPECT_EQ(step(34, 5), second);
  EXPECT_EQ(step(35, 6), third);
}

// Of a context of four pages.
class Paged : public Generation {
 protected:
  static constexpr int64_t kLongContext = 200;

  static Family with_long_context(Family family) {
    family.overrides.push_back("train.sequence_len=200");
    return family;
  }
  static models::Generation cache_of(int64_t pages) {
    models::Generation generation{3, 2, kContext};
    generation.pages = pages;
    generation.page_tokens = pages > 0 ? 64 : 0;
    return generation;
  }
  CpuProgram& long_program(int64_t pages) { return program(cache_of(pages), long_spec_); }

  const spec::Spec long_spec_ = spec_of(with_long_context(GetParam()));
};

// Texts of different lengths, two of which do not fit at once: they are those of a cache in which each text
// has room, and so is each token's probability to the bit.
TEST_P(Paged, TextsAreThoseOfACacheWithRoomForAll) {
  Texts expected = some_texts(1, 130);
  expected.options.log_probabilities = true;
  expected.options.stop = {"z"};
  Texts found = expected;
  expected.generate(long_program(0));
  found.generate(long_program(4));
  EXPECT_EQ(found.counts.pages, 4);
  EXPECT_EQ(found.counts.most_pages, 4);
  EXPECT_GT(found.counts.texts_put_back, 0);
  expect_equal(found, expected);
  for (size_t i = 0; i < expected.replies.size(); ++i)
    EXPECT_EQ(found.replies[i].log_probabilities, expected.replies[i].log_probabilities) << "text " << i;
}

// All logits of each step, over pages in any order.
TEST_P(Paged, LogitsHaveTheSameBits) {
  runtime::NextLogits whole(long_program(0)), paged(long_program(12));
  paged.set_page_table(Ids{7, 2, 11, 0, 4, -1, -1, -1, 1, 9, 3, 5});
  Ids prompts[2];
  for (int32_t i = 0; i < 40; ++i) prompts[0].push_back(1 + i * 37 % 255);
  prompts[1] = {9, 8, 7};
  const runtime::Prompt both[] = {{0, prompts[0]}, {2, prompts[1]}};
  whole.prefill(both);
  paged.prefill(both);
  for (int32_t step = 0; step < 155; ++step) {
    const Ids tokens = {1 + step * 7 % 255, 5, 1 + step * 3 % 255},
              positions = {40 + step, step % 64, 3 + step};
    const auto expected = whole.decode(tokens, positions), found = paged.decode(tokens, positions);
    for (const int64_t row : {0, 1, 2})
      ASSERT_TRUE(std::ranges::equal(found.row(row), expected.row(row)))
          << "step " << step << ", row " << row;
  }
}

class ShortPrompts : public Generation {};

TEST_P(ShortPrompts, EndATextWhereTheContextIsFull) {
  Texts texts = some_texts(0, 60);
  texts.generate(program(models::Generation{2, 1, 25}));
  for (size_t i = 0; i < texts.replies.size(); ++i) {
    EXPECT_EQ(texts.replies[i].end, runtime::TextEnd::context);
    EXPECT_EQ(texts.replies[i].new_tokens,
              kContext + 1 - static_cast<int64_t>(texts.requests[i].prompt.size()));
  }
}

class NoCache : public Generation {};

TEST_P(NoCache, TextsAreGeneratedOneByOne) {
  runtime::StepProgram& program = this->program(std::nullopt);
  EXPECT_EQ(program.facts().cache.sequences, 0);
  Texts texts = some_texts(1, 12);
  texts.generate(program);
  EXPECT_EQ(texts.counts.decode_steps, 0);
  for (const runtime::Reply& reply : texts.replies) EXPECT_EQ(reply.new_tokens, 12);
}

INSTANTIATE_TEST_SUITE_P(
    Families, Generation,
    testing::Values(
        Family{"llama", "num_key_value_heads: 2"},
        Family{"oneHeadOfKeys", "num_key_value_heads: 1, head_dim: 16"},
        Family{"gpt2",
               "norm: layernorm, position: learned, hidden_act: gelu_tanh, attention_bias: true, "
               "attention_output_bias: true, mlp_bias: true, norm_bias: true"},
        Family{"qwen3", "num_key_value_heads: 2, qk_norm: true, head_dim: 16, tie_word_embeddings: false"},
        Family{"windows", "num_key_value_heads: 2, sliding_window: 7"},
        Family{"windowsInSomeLayers", "sliding_window: 6, sliding_window_pattern: 2"},
        Family{"softcaps", "attention_softcap: 5, logit_softcap: 10"},
        Family{"noPositions", "position: none"}, Family{"interleaved", "rope_interleave: true"},
        Family{"longRope", "rope_scaling: {factor: 8, original_max_position_embeddings: 16}"},
        Family{"documents", "num_key_value_heads: 2", {"data.document_mask=true"}},
        Family{"adapters", "num_key_value_heads: 2", {"adapter.type=lora", "adapter.r=4"}},
        Family{"nf4", "num_key_value_heads: 2", {"adapter.type=lora", "adapter.r=4", "adapter.base=nf4"}},
        Family{"recursions", "num_key_value_heads: 2, mor: {recursions: 4}"},
        Family{"experts", "num_key_value_heads: 2, moe: {experts: 5, top_k: 2}"},
        Family{"parallel", "num_key_value_heads: 1, block: parallel, norm: layernorm"},
        Family{"parallelWithOneNorm", "block: parallel_one_norm"},
        Family{"modOfParallelBlocks", "block: parallel, mod: {capacity: 0.5, every: 3}"},
        Family{"mod",
               "num_key_value_heads: 2, qk_norm: true, mod: {capacity: 0.5}",
               {"model.num_hidden_layers=4"}},
        Family{"modOfEveryThirdLayer",
               "norm: layernorm, position: learned, hidden_act: gelu_tanh, mod: {capacity: 0.125, every: 3}"},
        Family{"modAdapters", "mod: {capacity: 0.5, every: 3}", {"adapter.type=lora", "adapter.r=4"}},
        Family{"ccgqa", kCompressed}, Family{"ccgqaOfAsManyKeys", "attention_kind: ccgqa, head_dim: 8"},
        Family{"ccgqaHeadConv",
               kCompressed,
               {"model.ccgqa.channel_conv=false", "model.ccgqa.value_shift=false"}},
        Family{"ccgqaChannelConv",
               kCompressed,
               {"model.ccgqa.head_conv=false", "model.ccgqa.value_shift=false", "model.ccgqa.conv_kernel=2"}},
        Family{"ccgqaValueShift",
               kCompressed,
               {"model.ccgqa.head_conv=false", "model.ccgqa.channel_conv=false"}},
        Family{"ccgqaLongConv", kCompressed, {"model.ccgqa.conv_kernel=9"}},
        Family{"ccgqaOneTap", kCompressed, {"model.ccgqa.conv_kernel=1"}},
        Family{"ccgqaWindows", kCompressed, {"model.sliding_window=7"}},
        Family{"ccgqaDocuments", kCompressed, {"data.document_mask=true"}},
        Family{"ccgqaAdapters", kCompressed, {"adapter.type=lora", "adapter.r=4"}},
        Family{"ccgqaWithoutTime",
               kCompressed,
               {"model.ccgqa.head_conv=false", "model.ccgqa.channel_conv=false",
                "model.ccgqa.value_shift=false"}}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Families, Paged,
    testing::Values(Family{"llama", "num_key_value_heads: 2"},
                    Family{"gpt2",
                           "norm: layernorm, position: learned, hidden_act: gelu_tanh, attention_bias: true, "
                           "attention_output_bias: true, mlp_bias: true, norm_bias: true"},
                    Family{"windowsInSomeLayers", "sliding_window: 70, sliding_window_pattern: 2"},
                    Family{"softcaps", "attention_softcap: 5, logit_softcap: 10"},
                    Family{
                        "mod", "num_key_value_heads: 2, mod: {capacity: 0.5}", {"model.num_hidden_layers=4"}},
                    Family{"ccgqa", kCompressed}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Families, ShortPrompts, testing::Values(Family{"llama", "num_key_value_heads: 2"}),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Families, TrainingForward,
    testing::Values(Family{"llama", "num_key_value_heads: 2"},
                    Family{"gpt2",
                           "norm: layernorm, position: learned, hidden_act: gelu_tanh, attention_bias: true, "
                           "attention_output_bias: true, mlp_bias: true, norm_bias: true"},
                    Family{"recursions", "num_key_value_heads: 2, mor: {recursions: 4}"},
                    Family{"ccgqa", kCompressed}, Family{"windows", "sliding_window: 7"}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Families, NoCache, testing::Values(Family{"llama", "num_key_value_heads: 2"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hydrac::targets
