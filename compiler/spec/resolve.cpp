#include "spec/resolve.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "runtime/data/source_kind.h"
#include "spec/batch.h"
#include "spec/hugging_face/chat_template.h"
#include "spec/keys/key_table.h"
#include "spec/keys/optimizer_table.h"
#include "targets/target.h"

namespace hydrac::spec {
namespace {

// Notes keys that were written with their plain default.
void note_defaults(Draft& draft) {
  const Spec& spec = draft.spec;
  size_t index = 0;
#define SECTION(path, member, Type, doc)
#define KEY(section, name, type, fallback, rule, doc)                                                       \
  if (const Default<type> row(fallback); !row.required && row.derived.empty() && section.name == row.value) \
    draft.usual.insert(key_rows()[index].path);                                                             \
  ++index;
#define END_SECTION(Type, member)
#include "spec/keys/keys.def"
#undef SECTION
#undef KEY
#undef END_SECTION
}

class Resolver {
 public:
  explicit Resolver(Draft& draft) : draft_(draft), spec_(draft.spec) {}

  // `field`, the key at `path`, is `value()` unless it was written. `value` reads the keys in `from`.
  template <class T, class Value>
  void derive(std::string_view path, T& field, std::initializer_list<std::string_view> from, Value value) {
    if (!draft_.usable({path})) return;
    const bool computable = draft_.usable(from);
    if (computable && (!spec_.is_set(path) || field == static_cast<T>(value()))) {
      field = static_cast<T>(value());
      draft_.usual.emplace(path);
    } else if (!computable && !spec_.is_set(path)) {
      draft_.broken.emplace(path);
    }
  }

  void model();
  void attention_widths();
  void adapter();
  void data();
  void objective();
  void optimizer();
  void loss();
  void scheduler();
  void optimizations();
  void output();

 private:
  Draft& draft_;
  Spec& spec_;
};

void Resolver::model() {
  auto& m = spec_.model;
  derive("model.weights", m.weights, {}, [] { return "none"; });
  const auto& data = spec_.data;
  const auto layernorm = [&] { return m.norm == Norm::layernorm; };
  derive("model.num_features", m.num_features, {"data.features", "model.input"},
         [&] { return m.input == Input::series ? data.features.size() : 0; });
  derive("model.head", m.head, {"model.input"},
         [&] { return m.input == Input::tokens ? Head::language_model : Head::regression; });
  derive("model.num_labels", m.num_labels, {"data.target", "model.head"},
         [&] { return m.head == Head::regression ? data.target.size() : 0; });
  derive("model.num_key_value_heads", m.num_key_value_heads, {"model.num_attention_heads"},
         [&] { return m.num_attention_heads; });
  attention_widths();
  auto& scaling = m.rope_scaling;
  derive("model.rope_scaling.attention_factor", scaling.attention_factor,
         {"model.rope_scaling.rope_type", "model.rope_scaling.factor",
          "model.rope_scaling.original_max_position_embeddings"},
         [&] { return usual_attention_factor(scaling); });
  derive("model.attention_scale", m.attention_scale, {"model.head_dim"},
         [&] { return 1 / std::sqrt(static_cast<double>(m.head_dim)); });
  derive("model.intermediate_size", m.intermediate_size, {"model.hidden_size", "model.hidden_act"}, [&] {
    // 8/3 keeps a gated mlp's three matrices as large as a plain one's two.
    return is_gated(m.hidden_act) ? (m.hidden_size * 8 + 191) / 192 * 64 : 4 * m.hidden_size;
  });
  derive("model.moe.intermediate_size", m.moe.intermediate_size, {"model.intermediate_size"},
         [&] { return m.intermediate_size; });
  derive("model.max_position_embeddings", m.max_position_embeddings, {"train.sequence_len"},
         [&] { return spec_.train.sequence_len; });
  derive("model.norm_bias", m.norm_bias, {"model.norm"}, layernorm);
  derive("model.attention_bias", m.attention_bias, {"model.norm", "model.attention_kind"},
         [&] { return layernorm() && m.attention_kind != AttentionKind::ccgqa; });
  derive("model.attention_output_bias", m.attention_output_bias, {"model.attention_bias"},
         [&] { return m.attention_bias; });
  derive("model.mlp_bias", m.mlp_bias, {"model.norm", "model.hidden_act"},
         [&] { return layernorm() && !is_gated(m.hidden_act); });
}

// True if a pattern names nothing but lists of records.
bool names_records(const std::string& pattern) {
  return has_records(runtime::source_kind(pattern));
}

void Resolver::adapter() {
  auto& adapter = spec_.adapter;
  derive("adapter.weights", adapter.weights, {}, [] { return "none"; });
  derive("adapter.alpha", adapter.alpha, {"adapter.r"}, [&] { return 2 * static_cast<double>(adapter.r); });
}

void Resolver::data() {
  auto& data = spec_.data;
  derive("data.tokenizer", data.tokenizer, {}, [] { return "byte"; });
  derive(
      "data.document_mask", data.document_mask,
      {"data.path", "data.mix", "data.format", "data.tokenizer", "model.input", "model.mod.capacity"}, [&] {
        return spec_.model.input == Input::tokens && data.tokenizer != "char" && !routes_tokens(spec_) &&
               (data.format == DataFormat::chat ||
                (data.format == DataFormat::auto_ && std::ranges::all_of(train_paths(spec_), names_records)));
      });
  derive("data.chat_template", data.chat_template,
         {"data.format", "data.tokenizer", "data.chat_template_jinja"}, [&] {
           return data.format == DataFormat::chat && own_template(spec_) ? ChatFormat::own : ChatFormat::none;
         });
  derive("data.curriculum.by", data.curriculum.by, {"data.format"},
         [&] { return data.format == DataFormat::chat ? CurriculumOrder::length : CurriculumOrder::file; });
}

void Resolver::objective() {
  auto& o = spec_.objective;
  derive("objective.beta", o.beta, {"objective.name"},
         [&] { return o.name == ObjectiveName::simpo ? 2.0 : 0.1; });
  derive("objective.prompt_tokens", o.prompt_tokens, {"train.sequence_len", "objective.max_new_tokens"},
         [&] { return std::max<int64_t>(1, spec_.train.sequence_len - o.max_new_tokens); });
  derive("objective.seed", o.seed, {"train.seed"}, [&] { return spec_.train.seed; });
  derive("objective.embed_layer", o.embed_layer, {"model.num_hidden_layers"},
         [&] { return spec_.model.num_hidden_layers; });
}

void Resolver::attention_widths() {
  auto& m = spec_.model;
  const bool compresses = m.attention_kind == AttentionKind::ccgqa;
  derive("model.ccgqa.compression", m.ccgqa.compression,
         {"model.hidden_size", "model.num_attention_heads", "model.head_dim"}, [&]() -> int64_t {
           if (!compresses || !spec_.is_set("model.head_dim")) return 4;
           return std::max<int64_t>(1, m.hidden_size / (m.num_attention_heads * m.head_dim));
         });
  derive(
      "model.head_dim", m.head_dim,
      {"model.hidden_size", "model.num_attention_heads", "model.attention_kind", "model.ccgqa.compression"},
      [&] { return m.hidden_size / (compresses ? m.ccgqa.compression : 1) / m.num_attention_heads; });
  derive("model.rope_interleave", m.rope_interleave, {"model.attention_kind"}, [&] { return compresses; });
}

void Resolver::optimizer() {
  auto& o = spec_.train.optimizer;
  const std::initializer_list<std::string_view> name = {"train.optimizer.name"};
  derive("train.optimizer.learning_rate", o.learning_rate, name,
         [&] { return row_of(o.name).learning_rate; });
  if (o.learning_rate.automatic && draft_.usable(name)) o.learning_rate.value = row_of(o.name).learning_rate;
  derive("train.optimizer.betas", o.betas, name, [&] { return row_of(o.name).betas; });
  derive("train.optimizer.momentum", o.momentum, name, [&] { return row_of(o.name).momentum; });
  derive("train.optimizer.weight_decay", o.weight_decay, name, [&] { return row_of(o.name).weight_decay; });
}

void Resolver::loss() {
  derive("train.loss", spec_.train.loss, {"model.head"},
         [&] { return spec_.model.head == Head::regression ? Loss::mse : Loss::cross_entropy; });
}

void Resolver::scheduler() {
  if (waits_for_data(spec_)) return;
  auto& s = spec_.train.lr_scheduler;
  const int64_t& max_steps = spec_.train.max_steps;
  derive("train.lr_scheduler.decay_steps", s.decay_steps,
         {"train.lr_scheduler.name", "train.lr_scheduler.warmup_steps", "train.max_steps"}, [&]() -> int64_t {
           if (s.name == Schedule::constant || s.name == Schedule::adaptive || s.name.function) return 0;
           if (s.name == Schedule::wsd)
             return std::min((max_steps + 9) / 10, std::max<int64_t>(0, max_steps - s.warmup_steps));
           return std::max<int64_t>(0, max_steps - s.warmup_steps);
         });
}

void Resolver::optimizations() {
  const targets::Target* target = targets::find(spec_.target);
  auto& o = spec_.optimizations;
  derive("optimizations.precision", o.precision, {"target"}, [&] {
    if (target->is_cpu()) return Precision::fp32;
    return target->has_bf16() ? Precision::bf16 : Precision::fp16;
  });
  derive("optimizations.streams", o.streams, {"target"}, [&] { return target->is_cpu() ? 1 : 2; });
  derive("optimizations.exact_accumulation", o.exact_accumulation, {"target"},
         [&] { return target->is_cpu(); });
  derive("optimizations.cuda_graph", o.cuda_graph, {"target"}, [&] { return !target->is_cpu(); });
}

void Resolver::output() {
  derive("output.dir", spec_.output.dir, {"name"}, [&] { return "runs/" + spec_.name; });
}

}  // namespace

void resolve_scheduler(Draft& draft) {
  shorten_schedule(draft);
  Resolver(draft).scheduler();
}

void resolve(Draft& draft) {
  note_defaults(draft);
  Resolver resolver(draft);
  resolver.model();
  resolver.adapter();
  resolver.data();
  resolver.objective();
  resolver.optimizer();
  resolver.loss();
  resolve_batch(draft);
  resolve_scheduler(draft);
  resolver.optimizations();
  resolver.output();
}

}  // namespace hydrac::spec
