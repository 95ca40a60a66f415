// Adds nodes to a region. Models write the forward graph with it; gradients and optimizers are written with
// it too.
#pragma once
#include <optional>
#include <string>

#include "ir/graph.h"
#include "ops/attention_rules.h"

namespace hydrac::ops {

class RegionBuilder {
 public:
  RegionBuilder(ir::Graph& graph, ir::Region& region) : graph_(graph), region_(region) {}

  // The part of the model and the spec key that nodes from here on belong to.
  void enter(std::string scope, std::string origin);
  // Another key in the same part.
  void asked_for_by(std::string origin) { origin_ = std::move(origin); }

  // A new activation (or other value) with one slot a layer of this region, and its use at the current layer.
  ir::Use fresh(const std::string& name, ir::Shape shape, ir::DType dtype = ir::DType::f32,
                ir::Role role = ir::Role::activation);
  // Marks a value that stays f32 whatever the precision of activations.
  ir::Use exact(ir::Use use);
  // A statistic that goes with `y`, in the slot that y has: where other nodes write other slots of y's value,
  // theirs and this one are slots of one value too.
  ir::Use fresh_beside(ir::Use y, const std::string& name, ir::Shape shape);
  // The next node's first output goes to this use of an existing value instead of a fresh one.
  void into(ir::Use use) { into_ = use; }

  // One output. Returns its use.
  ir::Use emit(ir::Op op, std::vector<ir::Use> inputs, const std::string& name, ir::Shape shape,
               ir::Attributes attributes = {});
  ir::Node& emit_node(ir::Op op, std::vector<ir::Use> inputs, std::vector<ir::Use> outputs,
                      ir::Attributes attributes = {});

  // A node that runs `body` as it is; `node` brings inputs and outputs, `name` names the kernel, `formula`
  // (lines of text) stands above it.
  void emit_body(const ir::Node& node, const std::string& name, ir::Body body,
                 const std::string& formula = "");

  ir::Graph& graph() { return graph_; }
  ir::Region& region() { return region_; }
  const ir::Value& value(ir::Use use) const { return graph_.value(use); }
  const ir::Shape& shape(ir::Use use) const { return graph_.value(use).shape; }

 protected:
  ir::Graph& graph_;
  ir::Region& region_;

 private:
  std::string scope_;
  std::string origin_;
  std::optional<ir::Use> into_;
};

inline constexpr int64_t kIgnoredTarget = -100;  // PyTorch's ignore_index

// The forward ops. Shapes: B sequences, T tokens, C width, H heads, D head width. `x` may have any leading
// dimensions where only the last is named.
using ir::Use;
Use embedding(RegionBuilder&, Use ids, Use table, const std::string& name);  // [B,T], [V,C] -> [B,T,C]
// x[B,T,C] + table[positions]. `positions` i32 [B,T]; without them token t is at position t.
Use position_embedding(RegionBuilder&, Use x, Use table, const std::string& name, Use positions = {});
// x[..,K] W[N,K]^T + b[N]. `ranks` > 1: so many have N rows each of a larger matrix, and the same x, whose
// gradient is the sum of what they compute of it.
Use linear(RegionBuilder&, Use x, Use weight, Use bias, const std::string& name, int64_t ranks = 1);
Use bias_add(RegionBuilder&, Use x, Use bias, const std::string& name);
// The sum of what `ranks` ranks have as x, which share layers; its gradient is that of each rank's x.
Use sum_over_ranks(RegionBuilder&, Use x, int64_t ranks, const std::string& name);
// [..] of each rank -> [ranks, ..].
std::vector<Use> gather_over_ranks(RegionBuilder&, const std::vector<Use>& parts, int64_t ranks);
// All rows, of shape `whole`, from the rows of x that each of the ranks that share layers has. `of_terms`:
// another part of the model follows on every rank, so that the gradients that ranks compute of x are terms.
Use gather_rows(RegionBuilder&, Use x, ir::Shape whole, int64_t ranks, bool of_terms,
                const std::string& name);
// Likewise a rank's rows, of shape `part`: of x, which is the same on all ranks,
Use own_rows(RegionBuilder&, Use x, ir::Shape part, int64_t ranks, const std::string& name);
// or of the sum of what they have as x.
Use sum_rows(RegionBuilder&, Use x, ir::Shape part, int64_t ranks, const std::string& name);
Use scale(RegionBuilder&, Use x, double factor, const std::string& name);  // x * factor
// x[..,C] * factor[..], a number a row, which has no gradient.
Use scale_rows(RegionBuilder&, Use x, Use factor, const std::string& name);
// x[..,C], weight [C], bias [1] or no value -> f32 [..]: a linear layer to one number a token, a router's.
// `detached`: x gets no gradient of it.
Use token_score(RegionBuilder&, Use x, Use weight, Use bias, const std::string& name, bool detached = false);
// A mixture of recursions: logit [..] -> depth and weight, f32 [..] both. See ops/recursion_depth.cpp.
struct Depths {
  Use depth;   // 0 to recursions - 1: after this pass the token is done
  Use weight;  // 0 to 1: how near p (recursions - 1) is to it
};
// `depth`: an existing value for it.
Depths recursion_depth(RegionBuilder&, Use logit, int64_t recursions, const std::string& name,
                       Use depth = {});
// Its router's auxiliary loss: logit [..] of all tokens -> f32 []. See ops/recursion_loss.cpp.
struct RecursionLossWeights {
  double depth = 0, variance = 0, logit = 0;
};
Use recursion_loss(RegionBuilder&, Use logit, const RecursionLossWeights&, const std::string& name);
// x[..,C] + y[..,C] in rows whose depth f32 [..] is `pass` or more, x in the others.
Use masked_add(RegionBuilder&, Use x, Use y, Use depth, int64_t pass, const std::string& name);
// x[..,C] (1 + weight[..] - stop(weight[..])): x, which passes a gradient to the weight.
Use straight_through(RegionBuilder&, Use x, Use weight, const std::string& name);
// x[..,C] * sigmoid(score[..]).
Use gate_rows(RegionBuilder&, Use x, Use score, const std::string& name);
// Chooses K of each sequence's T tokens: the chosen ones, i32 [B,K] ascending, and the place there of each
// token, i32 [B,T], -1 for a token that is not chosen.
struct TokenChoice {
  Use tokens, places;
};
// Those with the highest scores [B,T], of equal ones the earlier. `places`: an existing value for these.
TokenChoice choose_tokens(RegionBuilder&, Use scores, ir::Dim chosen, Use places = {});
// Those with a logit [B,T] above 0, of which a sequence has any number: `tokens` has room for all [B,T], and
// ends in tokens that nobody has chosen.
TokenChoice predicted_tokens(RegionBuilder&, Use logits);
// 1 of a token with a place, else 0: [B,T] -> [B,T,1].
Use chosen_flags(RegionBuilder&, Use places, const std::string& name);
// flags [S,R,1], of a sequence's newest tokens, R of them: how many chosen ones stand before the last, i32
// [S,1].
Use places_before(RegionBuilder&, Use flags, const std::string& name);
// f32 [B,T]: the cross-entropy of sigmoid(logits) [B,T] against whether a token has a place; 1 where a logit
// is above 0 if it has, and only then, else 0.
Use choice_loss(RegionBuilder&, Use logits, Use places, const std::string& name);
Use choice_hits(RegionBuilder&, Use logits, Use places, const std::string& name);
Use take_tokens(RegionBuilder&, Use x, const TokenChoice&, const std::string& name);  // [B,T,..] -> [B,K,..]
Use spread_tokens(RegionBuilder&, Use x, const TokenChoice&,
                  const std::string& name);  // and back, 0 elsewhere
// A mixture of experts, see ops/expert_choice.cpp. Logits f32 [..,E] -> scores, by softmax or sigmoid;
Use router_scores(RegionBuilder&, Use logits, bool sigmoid, const std::string& name);
// each token's k experts with the highest scores, i32 [..,k], highest first, and all experts' ranks [..,E].
struct ExpertChoice {
  Use experts, ranks;
};
// `experts`: an existing value for these.
ExpertChoice choose_experts(RegionBuilder&, Use scores, ir::Dim chosen, Use experts = {});
// factor * the chosen experts' scores, f32 [..,k]; normalized: these divided by their sum.
Use expert_weights(RegionBuilder&, Use scores, const ExpertChoice&, bool normalize, double factor,
                   const std::string& name);
// How many tokens have chosen each, f32 [E], and the largest of these numbers, f32 [].
Use expert_load(RegionBuilder&, const ExpertChoice&, const std::string& name);
Use largest_load(RegionBuilder&, Use load, const std::string& name);
// The router's losses, and the entropy of its scores' shares, f32 [..]: see ops/router_loss.cpp.
struct RouterLossWeights {
  double balance = 0, z = 0;
};
Use router_loss(RegionBuilder&, Use logits, Use scores, Use load, const RouterLossWeights&,
                const std::string& name);
Use router_entropy(RegionBuilder&, Use scores, const std::string& name);
// Choices [..,k], numbered row-major, in the order of their experts: `source` i32 [M], the choice of each
// row, -1 where a row has none; `place` i32 [..,k], the row of each choice; `offsets` i32 [E + 1], each
// expert's first row, a multiple of `block`. M is what the rows are at most.
struct ExpertRows {
  Use source, place, offsets;
};
ExpertRows expert_rows(RegionBuilder&, Use chosen, int64_t experts, int64_t block);
// x [..,C] -> the row of each choice's token, [M,C], zeros where there is none;
Use expert_inputs(RegionBuilder&, Use x, const ExpertRows&, const std::string& name);
// and x [M,C] -> the sum of each token's rows, times its weights [..,k], in order: [..,C].
Use combined_rows(RegionBuilder&, Use x, const ExpertRows&, Use weights, const std::string& name);
// x [M,K], weights [E*N,K] -> [M,N]: the rows of each expert times its matrix. See ops/grouped_matmul.cpp.
// `row_by_row`: a row's bits must not depend on the other rows, as those of texts that are generated
// together.
Use grouped_matmul(RegionBuilder&, Use x, Use weights, const ExpertRows&, ir::Dim columns, bool row_by_row,
                   const std::string& name);
// into += factor * scale * sum of rows, f32 [..]: for logs. `scale`: f32 [], or no value for 1.
void statistic(RegionBuilder&, Use rows, double factor, Use into, bool accumulate, Use scale = {});
Use layernorm(RegionBuilder&, Use x, Use weight, Use bias, double epsilon, const std::string& name,
              double offset = 0);
// x / rms(x) * (weight + offset).
Use rmsnorm(RegionBuilder&, Use x, Use weight, double epsilon, const std::string& name, double offset = 0);
// [B,T,(H+2K)D] -> q [B,T,H,D], k [B,T,K,D], v [B,T,K,D]: views, nothing is copied.
std::vector<Use> split_qkv(RegionBuilder&, Use qkv, int64_t heads, int64_t kv_heads, int64_t head_dim,
                           const std::string& scope);
// The same with q [B,T,HD] and k [B,T,KD], whose heads are together,
std::vector<Use> split_flat_qkv(RegionBuilder&, Use qkv, int64_t heads, int64_t kv_heads, int64_t head_dim,
                                const std::string& scope);
// and a view of such a one: [B,T,HD] -> [B,T,H,D].
Use heads_of(RegionBuilder&, Use flat, int64_t head_dim, const std::string& symbol, const std::string& name);
// split_qkv of [B,T,H3D], where a head's query, key and value lie side by side.
std::vector<Use> split_qkv_by_head(RegionBuilder&, Use qkv, int64_t heads, int64_t head_dim,
                                   const std::string& scope);
enum class RopePairs { halves, neighbours };  // elements i and i + R/2 turn together, or 2i and 2i + 1
// `angles`: how the tables were made, for who makes them anew. `period`: of layers, one in so many takes its
// angles from the tables' second half; 0: the tables have one.
struct RopeForm {
  RopePairs pairs = RopePairs::halves;
  int64_t period = 0;
  ir::Attributes angles;
};
// Tables cos, sin [T, R/2] or [2T, R/2] turn the first R elements of each head. `positions`: as for
// position_embedding.
Use rope(RegionBuilder&, Use x, Use cos, Use sin, const RopeForm&, const std::string& name,
         Use positions = {});
// x / |x| over the last dimension, times `temperature` [1] where there is one.
Use l2norm(RegionBuilder&, Use x, Use temperature, const std::string& name);
// A grouped linear map's matrix: `blocks` [parts*groups*d, d] along the diagonals of [parts*groups*d,
// columns], from `first_column` on.
Use block_diagonal(RegionBuilder&, Use blocks, int64_t groups, ir::Dim columns, int64_t first_column,
                   const std::string& name);
// The second matrix of low-rank adapters: `up` [N,r], whose rows `targets` names, in r columns for each
// target, times `scale`: [N, columns] with columns = targets * r, 0 elsewhere.
Use adapter_matrix(RegionBuilder&, Use up, const std::vector<ir::RowRange>& targets, ir::Dim columns,
                   double scale, const std::string& name);
struct TapSums {
  std::string name;
  ir::Shape shape;  // of a token: [W] or [H,D]
};
// Shifts: a tap on a token before the sequence, or with `documents` (as attention() has them) before the
// token's document, gives zeros. An operand may have `before` tokens in front of the first one,
// [B,before+T,..], for which there is no result; such an operand, which goes without documents, is what
// history_window() gives.
//
// products [B,T,taps*C] -> y[t] = sum over taps j of products[t - j, j], in parts of the channels. With
// products = x W^T, W [taps*C, in] and tap 0 first, that is a causal convolution.
std::vector<Use> sum_taps(RegionBuilder&, Use products, int64_t taps, const std::vector<TapSums>& parts,
                          int64_t before = 0, Use documents = {});
// v [B,T,K,D]: the second half of a token's K*D elements becomes that of the token before it.
Use value_shift(RegionBuilder&, Use v, const std::string& name, int64_t before = 0, Use documents = {});
Use head_sum(RegionBuilder&, Use x, double factor, const std::string& name);  // [B,T,H,D] -> [B,T,D]
// factor * x, of [B,T,H,D], or of [B,T,D] for each of `heads` heads.
Use scale_heads(RegionBuilder&, Use x, ir::Dim heads, double factor, const std::string& name);
struct Randomness {  // where dropout's random bits come from: scalars on the device
  Use step, seed;
  Use first_row = {};  // i32, of a tensor's rows those before x's: of all but its last dimension; no value: 0
};
// q [B,T,H,D], k and v [B,T,K,D] -> [B,T,HD]. `documents` i32 [B,T,2], of rules that have them: where each
// token's document begins and ends in its sequence.
Use attention(RegionBuilder&, Use q, Use k, Use v, double scale, const AttentionRules&, double dropout,
              const Randomness&, int64_t site, const std::string& name, Use documents = {});
Use activation(RegionBuilder&, const std::string& kind, Use x,
               const std::string& name);  // gelu, gelu_tanh, silu, relu2
Use gated(RegionBuilder&, const std::string& kind, Use x,
          const std::string& name);  // swiglu, geglu, geglu_tanh: [..,2I] -> [..,I]
// A user's function in their place, of one or of two parameters.
Use activation(RegionBuilder&, const functions::Function&, Use x, const std::string& name);
Use gated(RegionBuilder&, const functions::Function&, Use x, const std::string& name);
// `a_name`: what kernels call a, where that is not the residual stream.
Use add(RegionBuilder&, Use a, Use b, const std::string& name, const std::string& a_name = "");
Use dropout(RegionBuilder&, Use x, double p, const Randomness&, int64_t site, const std::string& name);
// cap * tanh(x / cap)
Use softcap(RegionBuilder&, Use x, double cap, const std::string& name);
// Columns of the logits from `classes` on are padding: they take no probability and get no gradient. Of the
// logits' softcap where that is not 0.
Use cross_entropy(RegionBuilder&, Use logits, Use targets, int64_t classes, double softcap,
                  double label_smoothing, const std::string& name);
// Classes of which each of `ranks` ranks has a part: of `all`, in equal parts but for the padding behind the
// last ones; `own` i32 [] is how many of the rank's columns are classes, absent where all are.
struct PartOfClasses {
  int64_t ranks = 1, all = 0;
  Use own;
};
inline constexpr int64_t kTargetOfAnother = -1;  // of a rank's targets: a class that another rank has
// The same of a rank's part of the logits, on every rank. Targets count from the rank's first class on.
Use cross_entropy_of_ranks(RegionBuilder&, Use logits, Use targets, const PartOfClasses& part, double softcap,
                           double label_smoothing, const std::string& name);
// count = rows whose largest logit, of those below `classes`, is the target's; f32 [].
void hits(RegionBuilder&, Use logits, Use targets, int64_t classes, Use count);
Use mse(RegionBuilder&, Use prediction, Use targets, const std::string& name);
// A user's function of (prediction, target) instead of the squared error.
Use pointwise_loss(RegionBuilder&, const functions::Function&, Use prediction, Use targets,
                   const std::string& name);
// loss += inv_count * sum(weights * rows), into the given scalar. `weights`: one a row, or no value for 1.
// `gradient_scale` (f32 [], or no value for 1) multiplies the gradient only.
void mean_loss(RegionBuilder&, Use rows, Use inv_count, Use loss, bool accumulate, Use gradient_scale = {},
               Use weights = {});
// The weight of a loss that blocks add. `step`: i32 [], optimizer steps done; in the first `warmup_steps`
// steps the weight grows with them to its whole.
struct AuxiliaryWeight {
  double weight = 1;
  int64_t warmup_steps = 0;
  Use step;  // no value where it is whole from the start
  bool accumulate = true;
};
// loss += weight * sum of rows, f32 [..], into the given scalar. `gradient_scale`: as of mean_loss().
void auxiliary_loss(RegionBuilder&, Use rows, const AuxiliaryWeight& weight, Use loss,
                    Use gradient_scale = {});
// Sums losses f32 [B,T] to the log-probabilities of P pairs of texts a row, and counts their tokens: f32
// [B,P] all. segments i32 [B,T]: a token's text, 2p if it is the chosen one of pair p, 2p + 1 if rejected, or
// -1.
struct PairSums {
  Use chosen, rejected, chosen_tokens, rejected_tokens;
};
// `chosen`, `rejected`: existing values for these.
PairSums pair_sums(RegionBuilder&, Use losses, Use segments, ir::Dim pairs, const std::string& name,
                   Use chosen = {}, Use rejected = {});
// The word of objective.name, and its numbers.
struct PreferenceRule {
  std::string name;
  double beta = 0, gamma = 0, label_smoothing = 0;
};
// A number a pair, f32 [B,P]; `hits`: 1 where the chosen text has the higher reward. Without a reference its
// log-probabilities are no values. See ops/preference_loss.cpp.
struct PreferenceRows {
  Use losses, chosen_rewards, rejected_rewards, margins, hits;
};
PreferenceRows preference_loss(RegionBuilder&, const PairSums&, Use chosen_reference, Use rejected_reference,
                               const PreferenceRule&, const std::string& name);
// x [B,N,d], N vectors a set: their mean cosine distance of two, f32 [B], and of each one to the others, f32
// [B,N].
struct Distances {
  Use mean, of_each;
};
void pairwise_cosine_distance(RegionBuilder&, Use x, const Distances& into);
// ids i32 [..] -> [..,classes]: 1 at the id, 0 elsewhere; of a negative id 0 everywhere.
Use one_hot(RegionBuilder&, Use ids, ir::Dim classes, const std::string& name);
// x[B,T,C] -> [B,C]: of each sequence the token at its position, i32 [B]; of one sequence, i32 [].
Use select_token(RegionBuilder&, Use x, Use positions, const std::string& name);

// values f32 [S,N], the N largest logits of each row in their order, equal ones by their id; ids i32 [S,N],
// -1 where there are fewer; sums f32 [S] of exp((logit - values[0]) * inverse_temperature) of all; drawn i32
// [S], the id into whose share of the sum the row's number falls, ids in their order, or ids[0] where the
// number is negative.
struct TopLogits {
  Use values, ids, sums, drawn;
};
// logits [S,..,V], of which the first `vocabulary`, i32 [], count; inverse_temperature f32 []; uniforms f32
// [S,2], whose sum is a row's number, in [0, 1) or negative.
void top_logits(RegionBuilder&, Use logits, Use inverse_temperature, Use vocabulary, Use uniforms,
                const TopLogits&);

// The keys and values of sequences that are generated: both [S,K,M,D], a slot a layer, S sequences of up to M
// tokens. With a page table, i32 [S,P], both are pages of N tokens, [Pages,K,N,D]: token t of a sequence is
// in page page_table[s, t / N], and one whose page is negative is kept nowhere.
struct KeyCache {
  Use keys, values;
  Use page_table = {};
};
// k and v [B,T,K,D] become tokens 0 to T - 1 of the cache's sequences rows[b], i32 [B]; of a negative row
// nothing is kept.
void cache_append(RegionBuilder&, Use k, Use v, const KeyCache&, Use rows);
// A token of each sequence, number positions[b], i32 [S,1]: its k and v [S,1,K,D] are written into the cache;
// its q [S,1,H,D] attends over what the cache then holds, as attention() would: [S,1,HD]. A token that is
// kept nowhere is at position 0.
Use attention_decode(RegionBuilder&, Use q, Use k, Use v, const KeyCache&, Use positions, double scale,
                     const AttentionRules&, const std::string& name);

// Earlier tokens for a step with one token of each sequence: the newest R rows of each, [S,R,..], a slot a
// layer.
//
// x [A,T,..]: the last R rows up to token ends[a] become those of sequences[a], i32 [A] both; nothing is kept
// of a negative sequence.
void history_append(RegionBuilder&, Use x, Use history, Use sequences, Use ends);
// x [S,1,..], of the token at positions[s], i32 [S,1], goes into the history; the last R rows up to it,
// [S,R,..], zeros where the sequence has not so many.
Use history_window(RegionBuilder&, Use x, Use history, Use positions, const std::string& name);

}  // namespace hydrac::ops
