#include "driver/decisions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "models/parameters.h"
#include "runtime/parallel/owned_slots.h"

namespace hydrac::driver {

void explain_sequence_warmup(const spec::Spec& spec, passes::Log& log) {
  const auto& warmup = spec.train.sequence_warmup;
  log.push_back(
      {"sequence-warmup",
       fmt::format("training sequences grow from {} tokens to {}, which all steps after the first {} "
                   "have; the program takes them as documents of a row, also then",
                   warmup.start, spec.train.sequence_len, warmup.steps)});
}

void explain_documents(const targets::Target& target, passes::Log& log) {
  log.push_back({"documents",
                 "attention's flop is counted as if each sequence were one document; tiles between documents "
                 "are skipped"});
  if (target.is_cpu()) return;
  log.push_back(
      {"documents",
       "attention's gradients are two kernels, of queries and of keys: the kernels that make all of them "
       "at once, and cuDNN, know one document a sequence"});
}

void explain_routing(const spec::Spec& spec, passes::Log& log) {
  const double kinds = spec::layers_of_iteration(spec),
               chosen = static_cast<double>(spec::chosen_tokens(spec)),
               share = chosen / static_cast<double>(spec.train.sequence_len);
  log.push_back(
      {"router",
       fmt::format(
           "{} of {} layers compute {} of a sequence's {} tokens: of what the flop of all layers would be "
           "with all tokens, matmuls have {:.1f}%, and attention over keys {:.1f}%",
           spec.model.num_hidden_layers / spec::layers_of_iteration(spec), spec.model.num_hidden_layers,
           chosen, spec.train.sequence_len, 100 * (kinds - 1 + share) / kinds,
           100 * (kinds - 1 + share * share) / kinds)});
}

namespace {

// The part of Muon's group that a rank orthogonalizes.
void explain_shared_matrices(const ir::Graph& graph, const models::Pack& pack,
                             const models::ParameterGroup& group, passes::Log& log) {
  std::map<int, std::vector<std::string>> by_layers;
  std::vector<std::string> whole;
  for (const ir::ValueId member : group.members) {
    const ir::Value& matrices = graph.value(member);
    const bool is_divided = std::ranges::count(group.stretches, member, &models::Stretch::member) > 0;
    (is_divided ? by_layers[matrices.slots] : whole).push_back(matrices.name);
  }
  for (const auto& [layers, names] : by_layers)
    log.push_back(
        {"ranks",
         fmt::format("muon: of {} layers a rank orthogonalizes the matrices of {}, of whose "
                     "updates ranks give it their parts, and which it gives back: {}",
                     layers, runtime::owned_slots(layers, pack.sharing_ranks), fmt::join(names, ", "))});
  if (!whole.empty())
    log.push_back({"ranks", fmt::format("muon: every rank orthogonalizes these matrices of all layers, which "
                                        "ranks do not divide one by one: {}",
                                        fmt::join(whole, ", "))});
}

}  // namespace

void explain_shared_update(const ir::Graph& graph, const models::Pack& pack, passes::Log& log) {
  log.push_back({"ranks", fmt::format("each of {0} ranks gets the sums of 1/{0} of the gradients before the "
                                      "update, which it computes for 1/{0} of the parameters; then all get "
                                      "these from each other",
                                      pack.sharing_ranks)});
  for (const models::ParameterGroup& group : pack.groups)
    if (group.optimizer == spec::Optimizer::muon) explain_shared_matrices(graph, pack, group, log);
}

void explain_shared_layers(const spec::Spec& spec, passes::Log& log) {
  const int64_t ranks = spec.parallel.tensor;
  log.push_back({"ranks", fmt::format("each of {0} ranks has 1/{0} of the heads, of the mlp and of the "
                                      "vocabulary: {1} query heads, {2} key and value heads, {3} of {4} "
                                      "columns between the mlp's matmuls",
                                      ranks, spec.model.num_attention_heads / ranks,
                                      spec.model.num_key_value_heads / ranks,
                                      spec.model.intermediate_size / ranks, spec.model.intermediate_size)});
  if (models::divides_stream(spec)) {
    log.push_back(
        {"ranks", fmt::format("norms and the residual stream are of {} of a micro-batch's tokens on each "
                              "rank: behind a matmul each gets its tokens of the ranks' sum, and "
                              "in front of the next one all gather them, twice a layer",
                              models::stream_rows(spec).size)});
    return;
  }
  log.push_back(
      {"ranks", fmt::format("norms and the residual stream are whole on each rank, because {} ranks do "
                            "not divide the {} tokens of a micro-batch; they add up what each has "
                            "of a layer's output, twice a layer, and of its input's gradient",
                            ranks, spec.train.micro_batch_size * spec.train.sequence_len)});
}

void explain_encoder(const ir::Graph& graph, const spec::Encoder& encoder, passes::Log& log) {
  const ir::Shape& texts = graph.value(graph.inputs.text_tokens).shape;
  log.push_back(
      {"objective",
       fmt::format("replies are embedded by {}: {} layers of width {}, in calls of {} of {} "
                   "tokens, several texts in a row",
                   encoder.folder, encoder.num_hidden_layers, encoder.hidden_size,
                   texts[0].size == 1 ? "a row" : fmt::format("{} rows", texts[0].size), texts[1].size)});
}

void explain_pages(const models::CacheInterface& io, const ir::Graph& graph, passes::Log& log) {
  const ir::Shape &keys = graph.value(io.keys).shape, &table = graph.value(graph.inputs.page_table).shape;
  log.push_back(
      {"cache",
       fmt::format("keys and values lie in {} pages of {} tokens, {} tokens in all, which {} "
                   "texts share; one of them has up to {} pages",
                   keys[0].size, keys[2].size, keys[0].size * keys[2].size, table[0].size, table[1].size)});
}

void explain_found_rate(const spec::Spec& spec, passes::Log& log) {
  const double start = spec.train.optimizer.learning_rate;
  const bool two = spec.train.optimizer.name == spec::Optimizer::muon;
  log.push_back(
      {"learning-rate",
       fmt::format("auto: a run begins with a range test, whose result the program reads from its state; "
                   "whatever else takes steps does so with {}, the optimizer's default",
                   start)});
  if (two)
    log.push_back(
        {"learning-rate", "muon and the adamw beside it have one rate, which the range test varies"});
}

}  // namespace hydrac::driver
