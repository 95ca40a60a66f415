#include "verify/small.h"

#include <fmt/format.h>

#include <algorithm>

#include "spec/keys/optimizer_table.h"

namespace hydrac::verify {

namespace {

constexpr int64_t kWindow = 50;  // no multiple of a tile
constexpr int64_t kLayers = 2, kSequence = 128, kBatch = 2, kAccumulation = 2, kSequenceSteps = 2;
constexpr int64_t kKeyValueHeads = 2, kGroup = 8;
constexpr int64_t kOddVocabulary = 1031, kEvenVocabulary = 1024, kVocabularyPadding = 64, kFeatures = 5;
constexpr double kLearningRate = 1.5e-3;

class Overrides {
 public:
  void set(const char* key, int64_t before, int64_t after) {
    if (before != after) list_.push_back(fmt::format("{}={}", key, after));
  }
  void shrink(const char* key, int64_t value, int64_t most) { set(key, value, std::min(value, most)); }
  void add(std::string override) { list_.push_back(std::move(override)); }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

// `width` times to / from, rounded up to a multiple of 8, or to an odd number where it was one.
int64_t scaled_width(int64_t width, int64_t from, int64_t to) {
  if (from == to) return width;
  const int64_t scaled = (width * to + from - 1) / from;
  return std::min(width, width % 2 != 0 ? scaled | 1 : (scaled + 7) / 8 * 8);
}

void shrink_widths(const spec::Model& m, Overrides& overrides) {
  const int64_t kv_heads = std::min(m.num_key_value_heads, kKeyValueHeads);
  const int64_t heads = kv_heads * std::min(m.num_attention_heads / m.num_key_value_heads, kGroup);
  const int64_t compression = m.attention_kind == spec::AttentionKind::ccgqa ? m.ccgqa.compression : 1;
  const bool heads_fill_width = m.hidden_size == compression * m.num_attention_heads * m.head_dim;
  const int64_t hidden = heads_fill_width ? compression * heads * m.head_dim
                                          : scaled_width(m.hidden_size, m.num_attention_heads, heads);
  overrides.set("model.num_attention_heads", m.num_attention_heads, heads);
  overrides.set("model.num_key_value_heads", m.num_key_value_heads, kv_heads);
  overrides.set("model.hidden_size", m.hidden_size, hidden);
  if (hidden != m.hidden_size || heads != m.num_attention_heads)
    overrides.set("model.head_dim", 0, m.head_dim);
  overrides.set("model.intermediate_size", m.intermediate_size,
                scaled_width(m.intermediate_size, m.hidden_size, hidden));
}

void shrink_vocabulary(const spec::Spec& spec, Overrides& overrides) {
  const spec::Model& m = spec.model;
  if (m.input == spec::Input::series) {
    if (m.num_features == 0) overrides.set("model.num_features", 0, kFeatures);
    return;
  }
  if (m.vocab_size == 0) {
    const std::string& tokenizer = spec.data.tokenizer;
    overrides.set("model.vocab_size", 0,
                  tokenizer == "char"   ? 65
                  : tokenizer == "byte" ? 256
                                        : kOddVocabulary);
    return;
  }
  overrides.shrink("model.vocab_size", m.vocab_size,
                   m.vocab_size % kVocabularyPadding == 0 ? kEvenVocabulary : kOddVocabulary);
}

// A global batch that is given has to stay the product of the two.
void shrink_batch(const spec::Spec& spec, Overrides& overrides) {
  const spec::Train& t = spec.train;
  if (!spec.is_set("train.global_batch_size") && !spec.is_set("train.global_batch_tokens")) {
    overrides.shrink("train.micro_batch_size", t.micro_batch_size, kBatch);
    overrides.shrink("train.gradient_accumulation_steps", t.gradient_accumulation_steps, kAccumulation);
    return;
  }
  const bool is_chosen = !spec::waits_for_plan(spec);
  const int64_t batch = is_chosen ? std::min<int64_t>(t.micro_batch_size, kBatch) : 1;
  const int64_t steps = is_chosen ? std::min<int64_t>(t.gradient_accumulation_steps, kAccumulation) : 1;
  overrides.set("train.micro_batch_size", 0, batch);
  overrides.set("train.gradient_accumulation_steps", 0, steps);
  overrides.set("train.global_batch_size", 0, batch * steps);
}

}  // namespace

std::vector<std::string> small_overrides(const spec::Spec& spec) {
  const spec::Model& m = spec.model;
  const spec::Train& t = spec.train;
  Overrides overrides;
  if (spec::begins_with_weights(spec))
    overrides.add("model.weights=none");  // which a smaller model has no place for
  if (spec::begins_with_adapter(spec)) overrides.add("adapter.weights=none");
  overrides.shrink("model.num_hidden_layers", m.num_hidden_layers, kLayers * spec::layers_of_iteration(spec));
  overrides.shrink("optimizations.offload.weights", spec.optimizations.offload.weights,
                   std::min(kLayers, m.num_hidden_layers));
  // So that there are layers of both kinds, and tokens that the window hides.
  overrides.shrink("optimizations.recompute_layers", spec.optimizations.recompute_layers, 1);
  overrides.shrink("model.sliding_window_pattern", m.sliding_window_pattern, kLayers);
  overrides.shrink("model.no_rope_pattern", m.no_rope_pattern, kLayers);
  overrides.shrink("model.sliding_window", m.sliding_window, kWindow);
  shrink_widths(m, overrides);
  shrink_vocabulary(spec, overrides);
  const int64_t length = std::min(t.sequence_len, kSequence);
  // Learned positions beyond the sequence get no gradient: a few of them stay.
  if (m.position == spec::Position::learned) {
    const int64_t unused = m.max_position_embeddings > t.sequence_len ? 8 : 0;
    overrides.shrink("model.max_position_embeddings", m.max_position_embeddings, length + unused);
  }
  overrides.set("train.sequence_len", t.sequence_len, length);
  if (spec::warms_sequences_up(spec)) {  // three lengths in three steps
    overrides.shrink("train.sequence_warmup.start", t.sequence_warmup.start,
                     std::max<int64_t>(1, length / 4));
    overrides.shrink("train.sequence_warmup.steps", t.sequence_warmup.steps, kSequenceSteps);
  }
  shrink_batch(spec, overrides);
  // A prompt and a reply fill a sequence.
  if (spec::samples_replies(spec)) {
    overrides.shrink("objective.max_new_tokens", spec.objective.max_new_tokens, length / 2);
    overrides.shrink("objective.prompt_tokens", spec.objective.prompt_tokens, length / 2);
    overrides.shrink("objective.prompts", spec.objective.prompts, kBatch);
    // An encoder has no part in what is compared.
    if (spec::encoder_of_replies(spec)) overrides.add("objective.embed=model");
    if (spec.model.num_hidden_layers > kLayers)
      overrides.shrink("objective.embed_layer", spec.objective.embed_layer, kLayers);
  }
  // The auxiliary loss would be next to nothing in the first steps.
  if (spec::has_recursions(spec))
    overrides.shrink("model.mor.aux_warmup_steps", spec.model.mor.aux_warmup_steps, 1);
  // In a model this small none would pay.
  if (spec.optimizations.precision == spec::Precision::fp8 &&
      spec.optimizations.fp8_matmuls != spec::Fp8Matmuls::all)
    overrides.add("optimizations.fp8_matmuls=all");
  overrides.shrink("train.lr_scheduler.warmup_steps", t.lr_scheduler.warmup_steps, 1);
  // A gradient's rounding error alone can make a whole step here; later losses would measure only that error.
  if (spec::row_of(t.optimizer.name).divides_by_gradient && t.optimizer.learning_rate > kLearningRate)
    overrides.add(fmt::format("train.optimizer.learning_rate={}", kLearningRate));
  if (t.lr_scheduler.name == spec::Schedule::adaptive)
    overrides.shrink("train.lr_scheduler.patience", t.lr_scheduler.patience, 1);
  return overrides.take();
}

}  // namespace hydrac::verify
