// Shapes: heads and widths, positions, inputs and outputs.
#include <fmt/format.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "diag/render.h"
#include "diag/suggest.h"
#include "spec/checks/check.h"
#include "spec/checks/divisors.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

// The next width of heads that attention's kernels take.
int64_t next_head_dim(int64_t head_dim) {
  constexpr int64_t kStep = 8;
  return (head_dim / kStep + 1) * kStep;
}

void check_head_width(Draft& draft) {
  const auto& m = draft.spec.model;
  if (draft.spec.is_set("model.head_dim") ||
      !draft.usable({"model.hidden_size", "model.num_attention_heads", "model.attention_kind"}))
    return;
  const bool compresses = m.attention_kind == AttentionKind::ccgqa;
  if (compresses && !draft.usable({"model.ccgqa.compression"})) return;
  const int64_t compression = compresses ? m.ccgqa.compression : 1, width = m.hidden_size / compression;
  if (m.hidden_size % compression != 0) {
    draft.report(Kind::compression_divides_width, {"model.ccgqa.compression", "model.hidden_size"},
                 fmt::format("compression ({}) must divide hidden_size ({})", compression, m.hidden_size),
                 fmt::format("{} would fit", diag::one_of(divisors_near(m.hidden_size, compression))));
    draft.broken.insert("model.head_dim");
  } else if (width % m.num_attention_heads != 0) {
    const std::string name = compresses ? "hidden_size / compression" : "hidden_size";
    draft.report(
        Kind::heads_divide_width, {"model.num_attention_heads", "model.hidden_size"},
        fmt::format("num_attention_heads ({}) must divide {} ({})", m.num_attention_heads, name, width),
        fmt::format("{} would fit; or write head_dim",
                    diag::one_of(divisors_near(width, m.num_attention_heads))));
    draft.broken.insert("model.head_dim");
  }
}

void check_heads(Draft& draft) {
  const auto& m = draft.spec.model;
  check_head_width(draft);
  if (draft.usable({"model.num_attention_heads", "model.num_key_value_heads"}) &&
      m.num_attention_heads % m.num_key_value_heads != 0)
    draft.report(Kind::kv_heads_divide_heads, {"model.num_key_value_heads", "model.num_attention_heads"},
                 fmt::format("num_key_value_heads ({}) must divide num_attention_heads ({})",
                             m.num_key_value_heads, m.num_attention_heads),
                 fmt::format("{} would fit",
                             diag::one_of(divisors_near(m.num_attention_heads, m.num_key_value_heads))));
}

void check_packed_heads(Draft& draft) {
  const auto& m = draft.spec.model;
  if (!draft.usable({"model.packed_weights"}) || m.packed_weights != PackedWeights::qkv_by_head) return;
  const auto refuse = [&](std::string_view key, std::string_view why, const char* help) {
    draft.report(Kind::packed_by_head, {"model.packed_weights", key},
                 fmt::format("packed_weights: qkv_by_head {}", why), help);
  };
  if (draft.usable({"model.attention_kind"}) && m.attention_kind != AttentionKind::gqa)
    refuse("model.attention_kind", "is for attention_kind: gqa", "remove packed_weights");
  if (draft.usable({"model.num_key_value_heads", "model.num_attention_heads"}) &&
      m.num_key_value_heads != m.num_attention_heads)
    refuse("model.num_key_value_heads", "needs keys and values of each head",
           "write as many num_key_value_heads as num_attention_heads");
  if (draft.usable({"model.qk_norm", "model.qk_norm_scope"}) && m.qk_norm &&
      m.qk_norm_scope == QkNormScope::projection)
    refuse("model.qk_norm_scope", "leaves queries apart, which one norm covers", "write qk_norm_scope: head");
}

void check_compressed_attention(Draft& draft) {
  const auto& m = draft.spec.model;
  if (!draft.usable({"model.attention_kind"}) || m.attention_kind != AttentionKind::ccgqa) return;
  if (draft.spec.is_set("model.head_dim") &&
      draft.usable({"model.hidden_size", "model.num_attention_heads", "model.ccgqa.compression"})) {
    const int64_t width = m.num_attention_heads * m.head_dim * m.ccgqa.compression;
    if (width != m.hidden_size)
      draft.report(
          Kind::compression_divides_width,
          {"model.head_dim", "model.ccgqa.compression", "model.num_attention_heads", "model.hidden_size"},
          fmt::format("num_attention_heads ({}) times head_dim ({}) times compression ({}) is {}, and "
                      "hidden_size is {}",
                      m.num_attention_heads, m.head_dim, m.ccgqa.compression, width, m.hidden_size),
          "leave head_dim out, and write a compression");
  }
  const std::pair<std::string_view, bool> others[] = {
      {"model.attention_bias", m.attention_bias},
      {"model.attention_output_bias", m.attention_output_bias},
      {"model.qk_norm", m.qk_norm}};
  for (const auto& [key, is_set] : others) {
    if (draft.usable({key}) && draft.spec.is_set(key) && is_set)
      draft.report(Kind::not_of_this_attention, {key, "model.attention_kind"},
                   fmt::format("ccgqa has no {}", key.substr(std::string_view("model.").size())),
                   "remove it, or write attention_kind: gqa");
  }
  if (draft.usable({"model.head_dim", "model.position"}) && m.ccgqa.value_shift && m.head_dim % 2 != 0 &&
      m.position != Position::rope)
    draft.report(Kind::head_dim_odd, {"model.head_dim", "model.ccgqa.value_shift", "model.hidden_size"},
                 fmt::format("value_shift needs an even head_dim, and it is {}", m.head_dim),
                 fmt::format("head_dim {} would fit", next_head_dim(m.head_dim)));
}

void check_pair_factors(Draft& draft) {
  const auto& m = draft.spec.model;
  if (!draft.usable({"model.rope_scaling.rope_type", "model.head_dim", "model.partial_rotary_factor"}) ||
      m.rope_scaling.rope_type != RopeType::longrope)
    return;
  const auto pairs = static_cast<size_t>(rope_width(m) / 2);
  const std::pair<std::string_view, const Numbers&> lists[] = {
      {"model.rope_scaling.short_factor", m.rope_scaling.short_factor},
      {"model.rope_scaling.long_factor", m.rope_scaling.long_factor}};
  for (const auto& [key, list] : lists)
    if (draft.usable({key}) && list.size() != pairs)
      draft.report(Kind::rope_factors, {key, "model.rope_scaling.rope_type"},
                   fmt::format("{} has {} numbers, and rope turns {} pairs of a head's elements",
                               key.substr(key.rfind('.') + 1), list.size(), pairs),
                   "write one for each pair");
}

void check_rope(Draft& draft) {
  const auto& m = draft.spec.model;
  if (m.position != Position::rope) return;
  if (draft.usable({"model.head_dim", "model.partial_rotary_factor"}) && m.head_dim % 2 == 0 &&
      (rope_width(m) == 0 || rope_width(m) % 2 != 0))
    draft.report(Kind::head_dim_odd, {"model.partial_rotary_factor", "model.head_dim"},
                 fmt::format("rope would turn {} of a head's {} elements, which are no pairs", rope_width(m),
                             m.head_dim),
                 "0.5 turns half of them, 1 all");
  check_pair_factors(draft);
  if (!draft.usable({"model.rope_local_theta", "model.no_rope_pattern", "model.sliding_window",
                     "model.sliding_window_pattern"}) ||
      m.rope_local_theta == 0)
    return;
  if (m.no_rope_pattern > 0)
    draft.report(Kind::rope_layers, {"model.no_rope_pattern", "model.rope_local_theta"},
                 "layers differ in their base (rope_local_theta) or in having rope at all, not in both",
                 "remove one of the keys");
  if (m.sliding_window == 0 || m.sliding_window_pattern == 0)
    draft.report(Kind::rope_layers, {"model.rope_local_theta", "model.sliding_window_pattern"},
                 "rope_local_theta is the base of layers with a window beside others without, and all layers "
                 "are alike",
                 "write sliding_window and sliding_window_pattern, or the base as rope_theta");
}

void check_positions(Draft& draft) {
  const auto& m = draft.spec.model;
  if (draft.usable({"model.position", "model.head_dim"}) && m.position == Position::rope &&
      m.head_dim % 2 != 0)
    draft.report(Kind::head_dim_odd,
                 {"model.head_dim", "model.position", "model.num_attention_heads", "model.hidden_size"},
                 fmt::format("rope needs an even head_dim, and it is {}", m.head_dim),
                 fmt::format("head_dim {} would fit", next_head_dim(m.head_dim)));
  if (draft.usable({"model.norm", "model.norm_bias"}) && m.norm == Norm::rmsnorm && m.norm_bias)
    draft.report(Kind::norm_bias_needs_layernorm, {"model.norm_bias", "model.norm"}, "rmsnorm has no bias",
                 "leave norm_bias out, or write norm: layernorm");
  if (draft.usable({"model.norm_placement", "model.mor.recursions"}) && has_recursions(draft.spec) &&
      m.norm_placement != NormPlacement::input)
    draft.report(Kind::norm_unsupported, {"model.norm_placement", "model.mor.recursions"},
                 "passes of a mixture of recursions have a norm of their input alone",
                 "write norm_placement: input, or remove model.mor");
  const auto& scaling = m.rope_scaling;
  if (draft.usable({"model.rope_scaling.low_freq_factor", "model.rope_scaling.high_freq_factor"}) &&
      scaling.low_freq_factor >= scaling.high_freq_factor)
    draft.report(Kind::rope_factors,
                 {"model.rope_scaling.low_freq_factor", "model.rope_scaling.high_freq_factor"},
                 fmt::format("low_freq_factor ({}) must be below high_freq_factor ({})",
                             scaling.low_freq_factor, scaling.high_freq_factor),
                 "Llama 3 has 1 and 4");
  const int64_t length = draft.spec.train.sequence_len;
  if (draft.usable({"train.sequence_len", "model.max_position_embeddings"}) &&
      length > m.max_position_embeddings)
    draft.report(
        Kind::sequence_too_long, {"train.sequence_len", "model.max_position_embeddings"},
        fmt::format(
            "sequence_len ({}) is longer than max_position_embeddings ({}), the longest that the model reads",
            length, m.max_position_embeddings),
        fmt::format("write sequence_len: {}, or raise max_position_embeddings", m.max_position_embeddings));
}

void check_block(Draft& draft) {
  const auto& m = draft.spec.model;
  if (!draft.usable({"model.block"}) || m.block == BlockKind::sequential) return;
  if (draft.usable({"model.mor.recursions"}) && has_recursions(draft.spec))
    draft.report(Kind::block_unsupported, {"model.block", "model.mor.recursions"},
                 "passes of a mixture of recursions begin with the stream behind attention",
                 "write block: sequential, or remove model.mor");
  if (draft.usable({"model.norm_placement"}) && m.block == BlockKind::parallel_one_norm &&
      m.norm_placement == NormPlacement::output)
    draft.report(Kind::block_unsupported, {"model.block", "model.norm_placement"},
                 "norms of a branch's output alone leave attention and mlp no norm to share",
                 "write block: parallel");
}

void check_head(Draft& draft) {
  const auto& m = draft.spec.model;
  if (!draft.usable({"model.input", "model.head"})) return;
  if (m.input == Input::tokens && m.head != Head::language_model)
    draft.report(Kind::head_needs_input, {"model.head", "model.input"},
                 fmt::format("the {} head reads series, and the input is tokens", to_string(m.head)),
                 "write input: series, or head: language_model");
  if (m.input == Input::series && m.head == Head::language_model)
    draft.report(Kind::head_needs_input, {"model.head", "model.input"},
                 "the language_model head predicts tokens, and the input is series",
                 "write head: regression or head: classification, or input: tokens");
}

void check_repeats(Draft& draft, std::string_view path, const StringList& columns) {
  std::set<std::string> seen;
  for (const std::string& column : columns)
    if (!seen.insert(column).second)
      return draft.report(Kind::repeated_column, {path},
                          fmt::format("{} names {} twice", path, diag::printable(column)), "name it once");
}

void check_masks(Draft& draft) {
  const auto& m = draft.spec.model;
  if (draft.usable({"model.attention_mask", "model.head"}) && m.attention_mask == AttentionMask::none &&
      m.head == Head::language_model)
    draft.report(Kind::mask_shows_answer, {"model.attention_mask", "model.head"},
                 "the language_model head predicts the next token, and with attention_mask: none it sees it",
                 "write attention_mask: causal, or another head");
  if (draft.usable({"model.attention_mask", "model.sliding_window"}) && m.sliding_window > 0 &&
      m.attention_mask == AttentionMask::none)
    draft.report(
        Kind::window_needs_causal, {"model.sliding_window", "model.attention_mask"},
        fmt::format("a sliding_window ({}) is of tokens before the query, and attention_mask is none",
                    m.sliding_window),
        "remove sliding_window, or write attention_mask: causal");
  if (draft.usable({"model.logit_softcap", "model.head"}) && m.logit_softcap > 0 &&
      m.head == Head::regression)
    draft.report(Kind::softcap_needs_logits, {"model.logit_softcap", "model.head"},
                 "logit_softcap is for heads that have logits, and the head is regression",
                 "remove logit_softcap");
}

void check_columns(Draft& draft) {
  const auto& m = draft.spec.model;
  const auto& data = draft.spec.data;
  if (!draft.usable({"model.input", "model.head", "data.target"}) || m.input != Input::series) return;
  if (data.target.empty()) {
    draft.report(Kind::missing_key, {"model.input"},
                 "data.target is missing: a series model predicts CSV columns",
                 "add `target: [column]` under data");
    return;
  }
  check_repeats(draft, "data.features", data.features);
  check_repeats(draft, "data.target", data.target);
  if (draft.usable({"data.features", "model.num_features"}) && !data.features.empty() &&
      m.num_features != static_cast<int64_t>(data.features.size()))
    draft.report(
        Kind::labels_mismatch, {"model.num_features", "data.features"},
        fmt::format("num_features is {}, and data.features names {}", m.num_features, data.features.size()),
        "remove num_features");
  if (!draft.usable({"model.num_labels"})) return;
  if (m.head == Head::regression && m.num_labels != static_cast<int64_t>(data.target.size()))
    draft.report(Kind::labels_mismatch, {"model.num_labels", "data.target"},
                 fmt::format("num_labels is {}, and data.target names {}", m.num_labels, data.target.size()),
                 "remove num_labels");
  if (m.head != Head::classification) return;
  if (data.target.size() != 1)
    draft.report(
        Kind::labels_mismatch, {"data.target"},
        fmt::format("classification predicts one column, and data.target names {}", data.target.size()));
  if (!draft.spec.is_set("model.num_labels"))
    draft.report(Kind::missing_key, {"model.head"},
                 "model.num_labels is missing: how many classes are there?",
                 "add `num_labels: ...` under model");
  else if (m.num_labels < 2)
    draft.report(Kind::labels_mismatch, {"model.num_labels"},
                 fmt::format("classification needs at least 2 classes, and num_labels is {}", m.num_labels));
}

void check_documents(Draft& draft) {
  const auto& data = draft.spec.data;
  if (draft.usable({"data.format", "data.tokenizer"}) && data.format == DataFormat::chat &&
      data.tokenizer == "char")
    draft.report(Kind::no_documents, {"data.tokenizer", "data.format"},
                 "format: chat needs a token that ends a text, and the char tokenizer has none",
                 "write tokenizer: byte, or the path of a tokenizer.json");
  if (!draft.usable({"data.document_mask", "data.tokenizer", "model.input"}) ||
      !draft.spec.data.document_mask)
    return;
  if (draft.spec.model.input == Input::series)
    return draft.report(Kind::no_documents, {"data.document_mask", "model.input"},
                        "document_mask is for tokens, and the input is series", "remove document_mask");
  if (draft.spec.data.tokenizer == "char")
    draft.report(Kind::no_documents, {"data.document_mask", "data.tokenizer"},
                 "document_mask needs a token that ends a document, and the char tokenizer has none",
                 "write document_mask: false, or tokenizer: byte");
}

// A shard's header says which tokenizer made it, raw ids do not.
void check_format(Draft& draft) {
  if (!draft.usable({"data.format", "data.tokenizer"}) || draft.spec.data.format != DataFormat::uint16 ||
      draft.spec.is_set("data.tokenizer"))
    return;
  draft.report(Kind::missing_key, {"data.format"},
               "data.tokenizer is missing: raw ids do not say which tokenizer made them",
               "add `tokenizer: path/to/tokenizer.json` under data, or `tokenizer: byte`");
}

void check_vocabulary(Draft& draft) {
  constexpr int64_t kBytes = 256;
  const auto& m = draft.spec.model;
  if (draft.usable({"model.vocab_size", "data.tokenizer", "model.input"}) && m.input == Input::tokens &&
      m.vocab_size > 0 && m.vocab_size < kBytes && draft.spec.data.tokenizer == "byte")
    draft.report(Kind::vocab_too_small, {"model.vocab_size", "data.tokenizer"},
                 fmt::format("the byte tokenizer has {} ids, and vocab_size is {}", kBytes, m.vocab_size),
                 fmt::format("remove vocab_size, or write {} or more", kBytes));
}

}  // namespace

void check_model(Draft& draft) {
  check_heads(draft);
  check_packed_heads(draft);
  check_compressed_attention(draft);
  check_positions(draft);
  check_block(draft);
  check_rope(draft);
  check_head(draft);
  check_masks(draft);
  check_columns(draft);
  check_documents(draft);
  check_format(draft);
  check_vocabulary(draft);
}

}  // namespace hydrac::spec
