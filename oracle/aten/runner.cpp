#include "oracle/aten/runner.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/split_with_sizes.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "oracle/aten/autocast.h"
#include "oracle/aten/tensors.h"
#include "oracle/job/error.h"

namespace hydrac::oracle {

Runner::Runner(const Graph& graph, Mode mode, std::uint32_t seed, std::optional<at::ScalarType> autocast)
    : graph_(graph), mode_(mode), seed_(seed), autocast_(autocast) {
  int slots = 0;
  for (const Value& value : graph.values) {
    first_slot_.push_back(slots);
    slots += value.slots;
  }
  tensors_.resize(slots);
  list_calls();
  find_last_readers();
  if (mode == Mode::training) find_splits();
}

void Runner::list_calls() {
  for (const Region& region : graph_.regions)
    for (int layer = 0; layer < region.iterations(); ++layer)
      for (const Node& node : region.nodes) calls_.push_back({&find_op(node), &region, &node, layer, {}});
}

void Runner::find_last_readers() {
  std::set<int> kept = {first_slot_[graph_.loss]};
  if (graph_.auxiliary)
    for (int slot = 0; slot < graph_.values[*graph_.auxiliary].slots; ++slot)
      kept.insert(first_slot_[*graph_.auxiliary] + slot);
  for (auto call = calls_.rbegin(); call != calls_.rend(); ++call) {
    for (const auto& input : call->node->inputs)
      if (input && kept.insert(index(*input, call->layer)).second)
        call->released.push_back(index(*input, call->layer));
    const int output = index(call->node->output, call->layer);
    if (kept.insert(output).second) call->released.push_back(output);  // nobody reads it
  }
}

void Runner::find_splits() {
  std::map<int, std::map<std::int64_t, Call*>> readers;  // tensor -> offset -> call
  std::set<int> overlapping;
  for (Call& call : calls_) {
    if (call.node->op != "split_heads") continue;
    if (!call.node->inputs[0]) continue;  // an error when it runs
    const int source = index(*call.node->inputs[0], call.layer);
    const auto offset = static_cast<std::int64_t>(call.node->attrs.at("offset"));
    if (!readers[source].emplace(offset, &call).second) overlapping.insert(source);
  }
  for (const auto& [source, pieces] : readers) {
    Split split;
    std::int64_t end = 0;
    for (const auto& [offset, call] : pieces) {
      if (offset != end) break;
      split.sizes.push_back(
          static_cast<std::int64_t>(call->node->attrs.at("heads") * call->node->attrs.at("head_dim")));
      end += split.sizes.back();
    }
    const Value& whole = graph_.values[pieces.begin()->second->node->inputs[0]->value];
    if (overlapping.count(source) || split.sizes.size() != pieces.size() || whole.shape.empty() ||
        end != whole.shape.back())
      continue;
    for (int piece = 0; const auto& [offset, call] : pieces) {
      call->split = static_cast<int>(splits_.size());
      call->piece = piece++;
    }
    splits_.push_back(std::move(split));
  }
}

at::Tensor Runner::take_piece(Call& call, const at::Tensor& whole) {
  Split& split = splits_[call.split];
  if (split.pieces.empty()) split.pieces = at::split_with_sizes(whole, split.sizes, -1);
  at::Tensor piece = std::exchange(split.pieces[call.piece], at::Tensor());
  if (std::none_of(split.pieces.begin(), split.pieces.end(), [](const at::Tensor& p) { return p.defined(); }))
    split.pieces.clear();
  return piece.view(graph_.values[call.node->output.value].shape);
}

at::Tensor Runner::compute(Call& call, const std::vector<at::Tensor>& inputs) {
  const OpCall op_call{*call.node, graph_,  mode_,     seed_, call.region->first_layer + call.layer,
                       inputs,     tables_, autocast_, &fp8_, &choices_};
  if (autocast_) return run_under_autocast(*call.op, op_call);
  return call.split >= 0 ? take_piece(call, op_call.input(0)) : call.op->function(op_call);
}

at::Tensor Runner::run(Call& call) {
  std::vector<at::Tensor> inputs;
  for (const auto& input : call.node->inputs)
    inputs.push_back(input ? tensors_[index(*input, call.layer)] : at::Tensor());
  try {
    const Value& output = graph_.values[call.node->output.value];
    const at::Tensor result = with_shape_of(output, compute(call, inputs), "the result");
    return autocast_ && output.narrow ? result.to(*autocast_) : result;
  } catch (const c10::Error& e) {
    throw JobError(fmt::format("{} in region \"{}\", layer {}: {}", call.node->op, call.region->name,
                               call.layer, e.what_without_backtrace()));
  } catch (const JobError& e) {
    throw JobError(fmt::format("{} in region \"{}\", layer {}: {}", call.node->op, call.region->name,
                               call.layer, e.what()));
  }
}

at::Tensor Runner::Losses::total() const {
  return auxiliary.defined() ? loss + auxiliary : loss;
}

// Undefined where nothing wrote it.
at::Tensor Runner::take_loss(int slot) {
  at::Tensor loss = std::exchange(tensors_[slot], at::Tensor());
  if (!loss.defined()) return loss;
  if (loss.numel() != 1)
    throw JobError(fmt::format("the loss has {} elements; it must be a scalar", loss.numel()));
  return loss.reshape({});
}

Runner::Losses Runner::forward(const Source& source, const Observer& observe) {
  for (int value = 0; value < static_cast<int>(graph_.values.size()); ++value)
    for (int slot = 0; slot < graph_.values[value].slots; ++slot)
      if (graph_.values[value].role != Role::activation)
        tensors_[first_slot_[value] + slot] = source(value, slot);

  for (Call& call : calls_) {
    const SlotRef& output = call.node->output;
    at::Tensor& result = tensors_[index(output, call.layer)];
    result = run(call);
    if (observe) observe(output.value, output.slot(call.layer), result);
    for (const int tensor : call.released) tensors_[tensor] = at::Tensor();
  }
  Losses losses{take_loss(first_slot_[graph_.loss]), {}};
  if (!graph_.auxiliary) return losses;
  for (int slot = 0; slot < graph_.values[*graph_.auxiliary].slots; ++slot) {
    const at::Tensor term = take_loss(first_slot_[*graph_.auxiliary] + slot);
    if (term.defined()) losses.auxiliary = losses.auxiliary.defined() ? losses.auxiliary + term : term;
  }
  return losses;
}

}  // namespace hydrac::oracle
