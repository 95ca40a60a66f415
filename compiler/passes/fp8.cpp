// Matmuls of 8 bits with delayed scaling (Micikevicius et al., 2022; NVIDIA's Transformer Engine): an
// operand's scale comes from the absmax of earlier steps. So the kernel that computes the operand writes its
// 8 bits in the same pass. A weight's scale is exact: it is quantized once a step, after the update.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/builder.h"
#include "ops/op.h"
#include "passes/fp8_scales.h"
#include "passes/passes.h"

namespace hydrac::passes {

namespace {

using ir::DType;
using ir::Node;
using ir::Role;
using ir::Use;
using ir::Value;
using ir::ValueId;

constexpr double kForwardStart = 16;   // the scales of a first step, ...
constexpr double kGradientStart = 16;  // ... of a gradient that is about 1 / tokens

// The matmuls of a layer's weight.
enum class Matmul { forward, input_gradient, weight_gradient };

// The decision for a matmul, 8-bit or not, and the reason in the log's words.
struct Decision {
  bool is_narrow = false;
  std::string why;
};

// A weight's 8 bits, and their transpose where an input's gradient wants it.
struct Weight {
  Scale scale;
  ValueId quantized = ir::kNoValue, transposed = ir::kNoValue;
};

// The parameter's, of its copy of 16 bits too.
std::string name_of(const Value& weight) {
  const std::string copy = ".bf16";
  return weight.name.ends_with(copy) ? weight.name.substr(0, weight.name.size() - copy.size()) : weight.name;
}

int64_t flat_rows(const Value& value) {
  return ir::element_count(ir::Shape(value.shape.begin(), value.shape.end() - 1));
}

class Quantization {
 public:
  Quantization(ir::Graph& graph, const Fp8& options, Log& log)
      : graph_(graph),
        options_(options),
        log_(log),
        forward_(graph, "forward", DType::f8e4m3, kForwardStart),
        gradient_(graph, "gradient", options.gradients, kGradientStart * options.tokens),
        trained_(graph, "weights", DType::f8e4m3, 1),
        frozen_(graph, "frozen", DType::f8e4m3, 1) {}

  void run() {
    for (ir::Region& region : graph_.function("micro_step").regions) {
      if (region.layers > 0 || (options_.head && region.name == "head")) rewrite(region);
      if (region.layers > 0 && options_.attention) narrow_attention(region);
    }
    if (weights_.empty()) return;
    const auto load = std::ranges::find(graph_.functions, "load", &ir::Function::name);
    if (load == graph_.functions.end()) graph_.functions.push_back({"load", {}});
    const Use step{graph_.state.step, {}};
    make_scales(graph_.function("update"), step);
    make_scales(graph_.function("load"), {});
  }

 private:
  void rewrite(ir::Region& region) {
    quantized_.clear();
    transposed_.clear();
    region_ = &region;
    std::vector<Node> nodes;
    for (const Node& node : region.nodes) {
      if (const std::optional<Node> narrow = of_8_bits(node, nodes))
        nodes.push_back(*narrow);
      else
        nodes.push_back(node);
    }
    region.nodes = std::move(nodes);
  }

  // Narrows the backward pass too, where it is computed again.
  void narrow_attention(ir::Region& region) {
    for (Node& node : region.nodes) {
      if (node.op != ir::Op::attention) continue;
      node.attributes["fp8"] = true;
      log_.push_back(
          {"fp8", fmt::format("{}: {} multiplies queries, keys, values and probabilities of 8 bits",
                              region.name, graph_.value(node.outputs[0]).name)});
    }
  }

  // The matmul y = x W^T or d_x = d_y W of 8 bits, where it pays; what makes its operand goes to `before`.
  std::optional<Node> of_8_bits(const Node& node, std::vector<Node>& before) {
    const bool is_forward = node.op == ir::Op::linear;
    if (!is_forward && node.op != ir::Op::gemm) return std::nullopt;
    if (!is_forward && node.flag("transpose_a")) return weight_gradient(node, before);
    const Use x = node.inputs[0], weight = node.inputs[1];
    if (!is_weight(weight)) return std::nullopt;
    const Matmul kind = is_forward ? Matmul::forward : Matmul::input_gradient;
    if (!is_narrow({weight.value, kind}, node, added_bytes(node))) return std::nullopt;
    const Weight& w = weight_of(weight.value, !is_forward);
    ScalePack& pack = is_forward ? forward_ : gradient_;
    const Scale& scale = scale_of(pack, weight.value, kind);
    Node gemm = node;
    gemm.op = ir::Op::gemm;
    gemm.inputs = {quantized(pack, scale, x, weight.slot, node, before),
                   {is_forward ? w.quantized : w.transposed, weight.slot},
                   is_forward ? node.inputs[2] : Use{},
                   {scale.inverse, weight.slot},
                   {w.scale.inverse, weight.slot}};
    gemm.attributes = {
        {"transpose_a", false}, {"transpose_b", true}, {"accumulate", false}, {"fast_sums", is_forward}};
    return gemm;
  }

  // d_W (+)= d_y^T x as a matmul of transposes, where both have 8 bits for the layer's other matmuls.
  std::optional<Node> weight_gradient(const Node& node, std::vector<Node>& before) {
    const Use d_y = node.inputs[0], x = node.inputs[1], d_weight = node.outputs[0];
    const auto weight = std::ranges::find_if(weights_, [&](const auto& known) {
      return "d_" + name_of(graph_.value(known.first)) == graph_.value(d_weight).name;
    });
    if (weight == weights_.end()) return std::nullopt;
    const auto forward = scales_.find({weight->first, Matmul::forward}),
               backward = scales_.find({weight->first, Matmul::input_gradient});
    if (forward == scales_.end() || backward == scales_.end() ||
        !is_narrow({weight->first, Matmul::weight_gradient}, node, weight_gradient_bytes(node)))
      return std::nullopt;
    const auto kept = made_.find({x, forward->second.scale});
    const bool is_made = !quantized_.contains({x, forward->second.scale}) && kept != made_.end();
    const Use narrow_x = is_made ? kept->second
                                 : quantized(forward_, forward->second, x, d_weight.slot, node, before),
              narrow_d_y = quantized(gradient_, backward->second, d_y, d_weight.slot, node, before);
    Node gemm = node;
    gemm.inputs = {transposed(narrow_d_y, node, before),
                   transposed(narrow_x, node, before),
                   {},
                   {backward->second.inverse, d_weight.slot},
                   {forward->second.inverse, d_weight.slot}};
    gemm.attributes["transpose_a"] = false;
    gemm.attributes["transpose_b"] = true;
    return gemm;
  }

  bool is_weight(Use use) const {
    const Value& value = graph_.value(use);
    return value.shape.size() == 2 && value.dtype == DType::bf16 &&
           (value.role == Role::working_copy || value.role == Role::parameter || value.role == Role::frozen);
  }

  // True if a matmul of the weight is an 8-bit one. Decided at the first such matmul, so that a recomputed
  // matmul is of the same kind.
  bool is_narrow(const std::pair<ValueId, Matmul>& which, const Node& matmul, double added_bytes) {
    const auto [found, is_new] = decisions_.try_emplace(which);
    if (is_new) {
      const Decision decision = decision_on(matmul, added_bytes);
      found->second = decision.is_narrow;
      const std::string& output = graph_.value(matmul.outputs[0]).name;
      log_.push_back({"fp8", fmt::format("{}: {} {}", region_->name, output, decision.why)});
    }
    return found->second;
  }

  Decision decision_on(const Node& matmul, double added_bytes) const {
    const Value &x = graph_.value(matmul.inputs[0]), &y = graph_.value(matmul.outputs[0]);
    const int64_t m = flat_rows(y), n = y.shape.back().size,
                  k = matmul.optional_flag("transpose_a") ? flat_rows(x) : x.shape.back().size;
    if (m % 16 != 0 || n % 16 != 0 || k % 16 != 0)
      return {false, fmt::format("stays bf16: {}x{}x{} are not all multiples of 16", m, n, k)};
    const double flop = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    const double wide = flop / options_.flops_of_16_bits;
    const double narrow = flop / options_.flops_of_8_bits + added_bytes / options_.bytes_per_second;
    const std::string times = fmt::format("{:.3f} ms, {:.3f} in bf16", narrow * 1e3, wide * 1e3);
    if (narrow > wide && !options_.all)
      return {false, "stays bf16: of 8 bits with what they take it is " + times};
    return {true, "of 8 bits: " + times};
  }

  // Bytes of extra memory traffic of the 8-bit matmul: the operand's 8-bit copy; the operand itself, if a
  // library's kernel produces it; and the matmul's result, if a fused 16-bit kernel would keep it in
  // registers.
  double added_bytes(const Node& matmul) const {
    const Value &x = graph_.value(matmul.inputs[0]), &y = graph_.value(matmul.outputs[0]);
    double bytes = static_cast<double>(element_count(x.shape));
    bool is_made_here = false, feeds_activation = false;
    for (const Node& node : region_->nodes) {
      if (std::ranges::count(node.outputs, matmul.inputs[0]) > 0 && ops::op_info(node.op).body)
        is_made_here = true;
      const bool reads = std::ranges::count(node.inputs, matmul.outputs[0]) > 0;
      feeds_activation |= reads && (node.scope == "act");
    }
    if (!is_made_here) bytes += static_cast<double>(element_count(x.shape) * size_of(x.dtype));
    if (feeds_activation && options_.fuses_matmuls)
      bytes += static_cast<double>(element_count(y.shape) * size_of(y.dtype));
    return bytes;
  }

  // Both operands are read and written as transposes.
  double weight_gradient_bytes(const Node& matmul) const {
    const auto elements = [&](Use use) {
      return static_cast<double>(element_count(graph_.value(use).shape));
    };
    return 2 * (elements(matmul.inputs[0]) + elements(matmul.inputs[1]));
  }

  const Scale& scale_of(ScalePack& pack, ValueId weight, Matmul kind) {
    const auto [found, is_new] = scales_.try_emplace({weight, kind});
    const Value& value = graph_.value(weight);
    if (is_new) found->second = pack.add(name_of(value), value.slots);
    return found->second;
  }

  // The operand's 8 bits; written once a region.
  Use quantized(ScalePack& pack, const Scale& scale, Use x, ir::Slot slot, const Node& reader,
                std::vector<Node>& before) {
    const auto found = quantized_.find({x, scale.scale});
    if (found != quantized_.end()) return found->second;
    Value value = graph_.value(x);
    value.name += fmt::format(".{}", to_string(pack.dtype()));
    value.role = Role::activation;
    value.dtype = pack.dtype();
    value.view.reset();
    Node node;
    node.op = ir::Op::quantize;
    node.inputs = {x, {scale.scale, slot}};
    node.outputs = {{graph_.add(std::move(value)), x.slot}, {scale.largest, slot}};
    const auto makes = [&](const Node& other) { return std::ranges::count(other.outputs, x) > 0; };
    const auto maker = std::ranges::find_if(region_->nodes, makes);
    node.attributes["in_halves"] = maker != region_->nodes.end() && maker->op == ir::Op::gated_backward;
    node.scope = reader.scope;
    node.origin = "optimizations.precision";
    before.push_back(node);
    made_[{x, scale.scale}] = node.outputs[0];
    return quantized_[{x, scale.scale}] = node.outputs[0];
  }

  // [.., C] of 8 bits as [C, rows]; once a region.
  Use transposed(Use x, const Node& reader, std::vector<Node>& before) {
    if (const auto found = transposed_.find(x); found != transposed_.end()) return found->second;
    Value value = graph_.value(x);
    value.name += ".transposed";
    value.shape = {value.shape.back(), {flat_rows(value), "BT"}};
    Node node;
    node.op = ir::Op::transpose;
    node.inputs = {x};
    node.outputs = {{graph_.add(std::move(value)), x.slot}};
    node.scope = reader.scope;
    node.origin = "optimizations.precision";
    before.push_back(node);
    return transposed_[x] = node.outputs[0];
  }

  const Weight& weight_of(ValueId id, bool transposed) {
    const auto [found, is_new] = weights_.try_emplace(id);
    Weight& weight = found->second;
    if (is_new) {
      const Value& value = graph_.value(id);
      ScalePack& pack = value.role == Role::frozen ? frozen_ : trained_;
      weight.scale = pack.add(name_of(value), value.slots);
      weight.quantized = copy_of(id, ".f8e4m3", false);
    }
    if (transposed && weight.transposed == ir::kNoValue)
      weight.transposed = copy_of(id, ".transposed.f8e4m3", true);
    return weight;
  }

  ValueId copy_of(ValueId weight, const std::string& suffix, bool transposed) {
    Value value = graph_.value(weight);
    value.name = name_of(value) + suffix;
    value.dtype = DType::f8e4m3;
    value.role = Role::working_copy;
    value.parameter.reset();
    value.view.reset();
    if (transposed) std::swap(value.shape[0], value.shape[1]);
    return graph_.add(std::move(value));
  }

  // After the update, of the step's own values; after a load, where there is no step, of what was saved.
  void make_scales(ir::Function& function, Use step) {
    const bool is_load = step.value == ir::kNoValue;
    const auto for_weights = [&](const std::string& name, const auto& work) {
      std::map<int, ir::Region> regions;  // by slots
      for (const auto& [id, weight] : weights_) {
        const Value& value = graph_.value(id);
        if (value.role == Role::frozen && !is_load) continue;
        const std::string count =
            regions.empty() || regions.contains(value.slots) ? "" : std::to_string(value.slots);
        auto [found, is_new] = regions.try_emplace(value.slots);
        if (is_new) found->second = {name + count, value.slots, false, false, {}};
        ops::RegionBuilder b(graph_, found->second);
        b.enter("optimizer", "optimizations.precision");
        work(b, id, weight);
      }
      for (auto& [slots, region] : regions) function.regions.push_back(std::move(region));
    };
    const ir::Slot layer{true, 0};
    for_weights("largest_weights", [&](ops::RegionBuilder& b, ValueId id, const Weight& weight) {
      b.emit_node(ir::Op::largest, {{id, layer}}, {{weight.scale.largest, layer}});
    });
    ir::Region scales{"new_scales", 0, false, false, {}};
    ops::RegionBuilder b(graph_, scales);
    b.enter("optimizer", "optimizations.precision");
    forward_.from_history(b, step, options_.ranks);
    gradient_.from_history(b, step, options_.ranks);
    trained_.from_largest(b);
    if (is_load) frozen_.from_largest(b);
    function.regions.push_back(std::move(scales));
    for_weights("narrow_weights", [&](ops::RegionBuilder& b, ValueId id, const Weight& weight) {
      b.emit_node(ir::Op::scaled, {{id, layer}, {weight.scale.scale, layer}}, {{weight.quantized, layer}});
      if (weight.transposed != ir::kNoValue)
        b.emit_node(ir::Op::transpose, {{weight.quantized, layer}}, {{weight.transposed, layer}});
    });
  }

  ir::Graph& graph_;
  const Fp8& options_;
  Log& log_;
  ScalePack forward_, gradient_, trained_, frozen_;
  const ir::Region* region_ = nullptr;
  std::map<std::pair<ValueId, Matmul>, bool> decisions_;  // by weight: whether of 8 bits
  std::map<std::pair<ValueId, Matmul>, Scale> scales_;    // of its input (forward) and of d_output
  std::map<ValueId, Weight> weights_;                     // by what matmuls read
  std::map<std::pair<Use, ValueId>, Use> quantized_;      // of the region: by tensor and scale
  std::map<std::pair<Use, ValueId>, Use> made_;           // of all regions so far
  std::map<Use, Use> transposed_;                         // of the region: by what has 8 bits
};

}  // namespace

void fp8(ir::Graph& graph, const Fp8& options, Log& log) {
  Quantization(graph, options, log).run();
}

}  // namespace hydrac::passes
