// Refusals for objectives, whose replies are sampled and learned from while a model trains.
#include <fmt/format.h>

#include "spec/checks/check.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

void check_model_of_replies(Draft& draft) {
  const auto& m = draft.spec.model;
  if (draft.usable({"model.head"}) && m.head != Head::language_model)
    draft.report(
        Kind::objective_unsupported, {"objective.name", "model.head"},
        fmt::format("replies are sampled from a language model, and the head is {}", to_string(m.head)),
        "remove objective");
}

// Prompts are what stands before the first reply of an item.
void check_prompts(Draft& draft) {
  const auto& data = draft.spec.data;
  if (!draft.usable({"data.format", "data.train_on", "data.document_mask"})) return;
  if (data.format != DataFormat::chat)
    return draft.report(Kind::objective_unsupported, {"objective.name", "data.format"},
                        fmt::format("data of format {} has no prompts to reply to", to_string(data.format)),
                        "write data.format: chat, with JSONL of prompts and completions, or messages");
  if (data.train_on == TrainOn::all)
    return draft.report(Kind::objective_unsupported, {"objective.name", "data.train_on"},
                        "with train_on: all nothing says where a prompt ends", "write train_on: replies");
  if (!data.document_mask)
    draft.report(Kind::objective_unsupported, {"objective.name", "data.document_mask"},
                 "without document_mask a reply would be scored beside other items of its sequence",
                 "write document_mask: true");
}

void check_lengths(Draft& draft) {
  const char *prompt = "objective.prompt_tokens", *reply = "objective.max_new_tokens",
             *all = "train.sequence_len";
  if (!draft.usable({prompt, reply, all})) return;
  const auto& o = draft.spec.objective;
  const int64_t length = draft.spec.train.sequence_len;
  if (o.prompt_tokens + o.max_new_tokens <= length) return;
  const bool leaves_no_prompt = !draft.spec.is_set(prompt);
  draft.report(Kind::objective_too_long, {reply, prompt, all},
               leaves_no_prompt
                   ? fmt::format("a reply of {} tokens leaves no room for a prompt in a sequence of {}",
                                 o.max_new_tokens, length)
                   : fmt::format("a prompt of {} tokens and a reply of {} are longer than a sequence of {}",
                                 o.prompt_tokens, o.max_new_tokens, length),
               "make them shorter, or raise train.sequence_len");
}

void check_layer(Draft& draft) {
  if (!draft.usable({"objective.embed_layer", "model.num_hidden_layers"})) return;
  const int64_t layer = draft.spec.objective.embed_layer, layers = draft.spec.model.num_hidden_layers;
  if (layer <= layers) return;
  draft.report(Kind::objective_unsupported, {"objective.embed_layer", "model.num_hidden_layers"},
               fmt::format("embed_layer is {}, and the model has {} blocks", layer, layers),
               fmt::format("write {} at most", layers));
}

void check_reward(Draft& draft) {
  const auto& o = draft.spec.objective;
  if (!draft.usable({"objective.reward.command"}) || o.name != ObjectiveName::grpo) return;
  if (o.reward.command.empty() || o.reward.command[0].empty())
    draft.report(Kind::objective_needs_reward, {"objective.reward.command", "objective.name"},
                 "nothing says what replies are worth",
                 "give a program behind the spec's name: objective.reward.command=./reward.py");
}

void check_base_of_kl(Draft& draft) {
  if (!draft.usable({"objective.kl", "adapter.type"}) || draft.spec.objective.kl == 0 ||
      draft.spec.adapter.type != AdapterType::none)
    return;
  draft.report(Kind::objective_needs_adapter, {"objective.kl", "adapter.type"},
               "the divergence is from the model without its adapter, and there is no adapter",
               "write adapter: {type: lora}, or kl: 0");
}

// Each rank replies to its share of the prompts.
void check_ranks_of_replies(Draft& draft) {
  const auto& spec = draft.spec;
  if (!draft.usable({"objective.prompts", "parallel.data"})) return;
  const int64_t ranks = spec.parallel.data, prompts = spec.objective.prompts;
  if (prompts % ranks == 0) return;
  draft.report(Kind::objective_unsupported, {"objective.prompts", "parallel.data"},
               fmt::format("{} prompts do not divide by the {} ranks that reply to them", prompts, ranks),
               fmt::format("write {}", (prompts / ranks + 1) * ranks));
}

// Refuses what its steps, which are more than a forward and a backward pass of the data, do not have.
void check_steps(Draft& draft) {
  const auto& spec = draft.spec;
  if (draft.usable({"train.optimizer.learning_rate"}) && spec.train.optimizer.learning_rate.automatic)
    draft.report(Kind::objective_unsupported, {"objective.name", "train.optimizer.learning_rate"},
                 "the range test of learning_rate: auto samples no replies", "write a learning rate");
  if (draft.usable({"train.label_smoothing"}) && spec.train.label_smoothing > 0)
    draft.report(Kind::objective_unsupported, {"objective.name", "train.label_smoothing"},
                 "smoothed losses of sampled tokens have another gradient than that of their probabilities",
                 "write label_smoothing: 0");
  if (draft.usable({"optimizations.gradients", "optimizations.precision"}) &&
      spec.optimizations.gradients != GradientType::fp32 &&
      !computes_in_32_bits(spec.optimizations.precision))
    draft.report(Kind::objective_unsupported, {"objective.name", "optimizations.gradients"},
                 "gradients of 16 bits cannot add up over the micro-batches of data and of replies",
                 "write gradients: fp32");
}

}  // namespace

void check_objective(Draft& draft) {
  if (!draft.usable({"objective.name"}) || !samples_replies(draft.spec)) return;
  check_model_of_replies(draft);
  check_prompts(draft);
  check_lengths(draft);
  check_layer(draft);
  check_reward(draft);
  check_base_of_kl(draft);
  check_ranks_of_replies(draft);
  check_steps(draft);
}

}  // namespace hydrac::spec
