// Generation with a cache on a GPU: logits are those of the full context, the largest of them are found, and
// a sequence does not depend on those beside it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "runtime/text/tokenizer/tokenizers.h"
#include "runtime/train/generation/generate.h"
#include "runtime/train/generation/next_logits.h"
#include "targets/cuda/executor.h"
#include "tests/gpu/gpu_test.h"
#include "tests/unit/core/small_models.h"

namespace hydrac::targets {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kContext = 600, kVocabulary = 9000;
constexpr const char* kCompressed = "attention_kind: ccgqa, num_key_value_heads: 2, ccgqa: {compression: 2}";

struct Model {
  const char* name;
  const char* model;
  spec::Precision precision;
  double tolerance;  // of the largest logit
  spec::FusedMatmuls fused_matmuls = spec::FusedMatmuls::auto_;
  const char* sizes = "hidden_size: 256, intermediate_size: 256, initializer_range: 0.1";
};

void PrintTo(const Model& model, std::ostream* out) {
  *out << model.name;
}

class GpuGeneration : public test::GpuTest, public testing::WithParamInterface<Model> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const Target& target = *find(detected_gpu().value());
    machine_ = std::make_unique<CudaMachine>(target, folder_.path());
    spec_ = test::small_spec(std::string("num_hidden_layers: 2, num_attention_heads: 8, vocab_size: 9000, ") +
                                 GetParam().sizes + ", " + GetParam().model,
                             "sequence_len: 600, micro_batch_size: 1");
    spec_.target = target.name;
    spec_.optimizations.precision = GetParam().precision;
    spec_.optimizations.fused_matmuls = GetParam().fused_matmuls;
  }

  CudaProgram& program(const std::optional<models::Generation>& generation) {
    driver::CompileOptions options = machine_->compile_options(spec_, "");
    options.generation = generation;
    programs_.push_back(std::make_unique<CudaProgram>(driver::compile(spec_, options), *machine_));
    programs_.back()->initialize();
    return *programs_.back();
  }

  static Ids text(int64_t tokens, int32_t seed) {
    Ids ids;
    for (int32_t i = 0; i < tokens; ++i) ids.push_back((i * 37 + seed * 101) % kVocabulary);
    return ids;
  }

  test::TempDir folder_;
  std::unique_ptr<CudaMachine> machine_;
  spec::Spec spec_;
  std::vector<std::unique_ptr<CudaProgram>> programs_;
};

TEST_P(GpuGeneration, LogitsAreThoseOfTheFullContext) {
  runtime::NextLogits whole(program(std::nullopt)), cached(program(models::Generation{3, 2, 128, 64}));
  const Ids ids = text(kContext, 1);
  const runtime::Prompt prompt{2, std::span(ids).first(100)};
  std::vector<float> found;
  for (size_t length = 100; length <= ids.size(); ++length) {
    if (length == 100) {
      const auto row = cached.prefill({&prompt, 1}).row(0);
      found.assign(row.begin(), row.end());
    } else {
      cached.decode(Ids{5, 6, ids[length - 1]}, Ids{0, 0, static_cast<int32_t>(length) - 1});
      const auto row = cached.decoded_logits(2);
      found.assign(row.begin(), row.end());
    }
    if (length % 83 != 0 && length > 102 && length < ids.size()) continue;
    const auto expected = whole.next_logits(std::span(ids).first(length), static_cast<int64_t>(length) - 1);
    ASSERT_EQ(found.size(), expected.size());
    float largest = 0;
    for (const float logit : expected) largest = std::max(largest, std::abs(logit));
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], GetParam().tolerance * largest)
          << "length " << length << ", token " << i;
  }
}

TEST_P(GpuGeneration, TheLargestLogitsAreThoseOfTheRow) {
  runtime::NextLogits cached(program(models::Generation{3, 2, 128, 64}));
  const auto top = cached.decode_top(Ids{5, 600, 77}, Ids{0, 0, 0}, {0.5, kVocabulary - 1});
  for (int64_t s = 0; s < 3; ++s) {
    const auto row = cached.decoded_logits(s);
    Ids ids(kVocabulary - 1);
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) { return row[a] > row[b]; });
    double sum = 0;
    for (const int32_t id : ids) sum += std::exp((row[id] - row[ids[0]]) / 0.5);
    EXPECT_NEAR(top[s].sum, sum, 1e-4 * sum);
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(top[s].ids[i], ids[i]);
      EXPECT_EQ(top[s].values[i], row[ids[i]]);
    }
  }
}

// The number falls into the drawn token's share of the row, but for the rounding of sums.
TEST_P(GpuGeneration, ATokenIsDrawnFromTheWholeRow) {
  runtime::NextLogits cached(program(models::Generation{3, 2, 128, 64}));
  const std::vector<double> uniforms = {0.25, -1, 0.875};
  const auto top = cached.decode_top(Ids{5, 600, 77}, Ids{0, 0, 0}, {0.5, kVocabulary - 1, uniforms});
  EXPECT_EQ(top[1].drawn, top[1].ids[0]);
  for (const int64_t s : {0, 2}) {
    const auto row = cached.decoded_logits(s);
    ASSERT_GE(top[s].drawn, 0);
    ASSERT_LT(top[s].drawn, kVocabulary - 1);
    double before = 0;
    const auto share = [&](int32_t id) { return std::exp((row[id] - top[s].values[0]) / 0.5) / top[s].sum; };
    for (int32_t id = 0; id < top[s].drawn; ++id) before += share(id);
    EXPECT_LE(before, uniforms[s] + 1e-4);
    EXPECT_GE(before + share(top[s].drawn), uniforms[s] - 1e-4);
  }
}

// Steps that begin before the tokens of the one before are read are those that begin with these tokens.
TEST_P(GpuGeneration, AStepGoesOnWithTheTokensThatThePreviousOneChose) {
  runtime::NextLogits cached(program(models::Generation{3, 2, 128, 64}));
  const Ids prompts[] = {text(40, 1), text(9, 2)};
  const runtime::Prompt both[] = {{0, prompts[0]}, {2, prompts[1]}};
  const auto steps_of = [&](bool ahead) {
    cached.prefill(both);
    std::vector<Ids> chosen;
    const auto read = [&] {
      Ids ids;
      for (const auto& row : cached.finish_decode_top()) ids.push_back(row.drawn);
      chosen.push_back(ids);
    };
    const runtime::TopRequest request{0.5, kVocabulary, {0.4, -1, 0.7}};
    for (int32_t step = 0; step < 20; ++step) {
      const Ids first = {5, 6, 7}, positions = {40 + step, 0, 9 + step};
      if (step == 0)
        cached.begin_decode_top(first, positions, request);
      else if (ahead)
        cached.begin_decode_top(std::nullopt, positions, request);
      else
        cached.begin_decode_top(chosen.back(), positions, request);
      if (!ahead || step > 0) read();
    }
    if (ahead) read();
    return chosen;
  };
  EXPECT_EQ(steps_of(true), steps_of(false));
}

TEST_P(GpuGeneration, ASequenceDoesNotDependOnThoseBesideIt) {
  runtime::NextLogits cached(program(models::Generation{4, 1, 128, 64}));
  std::vector<float> expected;
  for (int32_t row = 0; row < 4; ++row) {
    for (int32_t r = 0; r < 4; ++r) {
      const Ids ids = r == row ? text(50, 9) : text(20 + 30 * r, row);
      const runtime::Prompt prompt{r, ids};
      cached.prefill({&prompt, 1});
    }
    Ids tokens(4, 7 * row), positions(4, 10 + row);
    tokens[row] = 33;
    positions[row] = 50;
    cached.decode(tokens, positions);
    const auto logits = cached.decoded_logits(row);
    if (row == 0) expected.assign(logits.begin(), logits.end());
    EXPECT_EQ(std::memcmp(logits.data(), expected.data(), expected.size() * sizeof(float)), 0)
        << "row " << row;
  }
}

models::Generation cache_of(int64_t pages) {
  return {.sequences = 3,
          .prompts = 2,
          .prompt_tokens = 128,
          .top = 64,
          .pages = pages,
          .page_tokens = pages > 0 ? 64 : 0};
}

// All logits of each step, over pages in any order.
TEST_P(GpuGeneration, OverPagesLogitsHaveTheSameBits) {
  runtime::NextLogits whole(program(cache_of(0))), paged(program(cache_of(30)));
  Ids table;
  for (int32_t i = 0; i < 30; ++i) table.push_back(i / 10 == 1 && i % 10 > 0 ? -1 : i * 7 % 30);
  paged.set_page_table(table);
  const Ids prompts[] = {text(100, 1), text(9, 2)};
  const runtime::Prompt both[] = {{0, prompts[0]}, {2, prompts[1]}};
  whole.prefill(both);
  paged.prefill(both);
  for (int32_t step = 0; step < 490; ++step) {
    const Ids tokens = {1 + step * 7 % 8000, 5, 1 + step * 3 % 8000},
              positions = {100 + step, step % 64, 9 + step};
    whole.decode(tokens, positions);
    paged.decode(tokens, positions);
    for (int64_t row = 0; row < 3 && (step % 37 == 0 || step > 485); ++row) {
      const auto logits = whole.decoded_logits(row);
      const std::vector<float> expected(logits.begin(), logits.end());
      ASSERT_EQ(
          std::memcmp(paged.decoded_logits(row).data(), expected.data(), expected.size() * sizeof(float)), 0)
          << "step " << step << ", row " << row;
    }
  }
}

// Texts of up to 320 tokens, of which one fits: the first three have all pages when they begin, and the
// youngest is put back soon.
TEST_P(GpuGeneration, FromFewPagesTextsAreThoseOfACacheWithRoomForAll) {
  const auto tokenizer = runtime::make_byte_tokenizer();
  std::vector<runtime::TextRequest> requests;
  for (int32_t i = 0; i < 5; ++i) {
    requests.push_back({text(60 + 15 * i, i), static_cast<uint64_t>(i)});
    for (int32_t& id : requests.back().prompt) id = 1 + id % 200;
  }
  CudaProgram &whole = program(cache_of(0)), &paged = program(cache_of(5));
  for (const double temperature : {0.0, 0.9}) {
    runtime::GenerateOptions options{.max_new_tokens = 200, .sampling = {.temperature = temperature}};
    const auto replies_of = [&](CudaProgram& program) {
      std::vector<Ids> replies(requests.size());
      runtime::TextEvents events;
      events.on_end = [&](size_t request, const runtime::Reply& reply) { replies[request] = reply.ids; };
      const auto counts = runtime::generate_batch(program, *tokenizer, requests, options, events);
      EXPECT_EQ(counts.texts_put_back > 0, &program == &paged);
      return replies;
    };
    EXPECT_EQ(replies_of(paged), replies_of(whole)) << "temperature " << temperature;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GpuGeneration,
    testing::Values(Model{"llama", "num_key_value_heads: 2, head_dim: 64", spec::Precision::bf16, 0.03},
                    Model{"ownMatmuls", "num_key_value_heads: 2, head_dim: 64", spec::Precision::bf16, 0.03,
                          spec::FusedMatmuls::all,
                          // So wide that blocks share a tile, and k goes around their stages.
                          "hidden_size: 2048, intermediate_size: 2048, initializer_range: 0.03"},
                    Model{"llamaFp32", "num_key_value_heads: 2, head_dim: 64", spec::Precision::fp32, 1e-5},
                    Model{"gpt2Fp16", "norm: layernorm, position: learned, hidden_act: gelu",
                          spec::Precision::fp16, 0.01},
                    Model{"ccgqa", kCompressed, spec::Precision::bf16, 0.03},
                    Model{"ccgqaFp32", kCompressed, spec::Precision::fp32, 1e-5},
                    Model{"mod", "num_key_value_heads: 2, head_dim: 64, mod: {capacity: 0.25}",
                          spec::Precision::fp32, 1e-5},
                    Model{"windows",
                          "num_key_value_heads: 4, qk_norm: true, sliding_window: 90, "
                          "sliding_window_pattern: 2, attention_softcap: 20",
                          spec::Precision::bf16, 0.03}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hydrac::targets
