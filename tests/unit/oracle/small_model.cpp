#include "small_model.h"

#include <limits>

namespace hydrac::oracle {
namespace {

using nlohmann::json;

// Values of a block: one slot a layer.
struct BlockWriter {
  JobFolder& job;
  int layers;

  int add(const std::string& op, const json& attrs, const json& inputs, const Shape& shape) {
    const int id =
        job.activation("block_" + std::to_string(job.root()["graph"]["values"].size()), shape, layers);
    add_to(op, attrs, inputs, layer_slot(id));
    return id;
  }
  void add_to(const std::string& op, const json& attrs, const json& inputs, const json& output) {
    job.raw_node({{"op", op}, {"attrs", attrs}, {"inputs", inputs}, {"outputs", json::array({output})}});
  }
};

Numbers near_one(std::size_t count, double seed) {
  Numbers numbers = wavy(count, seed);
  for (double& number : numbers) number = 1 + 0.3 * number;
  return numbers;
}

}  // namespace

void build_gpt(JobFolder& job) {
  constexpr int L = 2, B = 2, T = 3, C = 4, V = 5;
  const int ids = job.integer_input("ids", {B, T}, {0, 3, 1, 4, 4, 2});
  const int targets = job.integer_input("targets", {B, T}, {3, 1, -100, 4, 2, 0});
  const int rng = job.integer_input("rng_step", {}, {9});
  const int wte = job.parameter("wte", {V, C}, wavy(V * C, 1));
  const int wpe = job.parameter("wpe", {T, C}, wavy(T * C, 2));
  const int norm_w = job.parameter("norm.weight", {C}, near_one(L * C, 3), L);
  const int norm_b = job.parameter("norm.bias", {C}, wavy(L * C, 4), L);
  const int qkv_w = job.parameter("qkv.weight", {3 * C, C}, wavy(L * 3 * C * C, 5), L);
  const int qkv_b = job.parameter("qkv.bias", {3 * C}, wavy(L * 3 * C, 6), L);
  const int out_w = job.parameter("out.weight", {C, C}, wavy(L * C * C, 7), L);
  const int final_w = job.parameter("final.weight", {C}, near_one(C, 8));

  const int residual = job.activation("residual", {B, T, C}, L + 1);
  const int token = job.node("embedding", kNone, {ids, wte}, {B, T, C});
  job.raw_node({{"op", "position_embedding"},
                {"inputs", {fixed_slot(token), fixed_slot(wpe)}},
                {"outputs", {fixed_slot(residual)}}});
  job.region("block", L);
  BlockWriter block{job, L};
  const int norm = block.add("layernorm", {{"eps", 1e-5}},
                             {layer_slot(residual), layer_slot(norm_w), layer_slot(norm_b)}, {B, T, C});
  const int qkv =
      block.add("linear", kNone, {layer_slot(norm), layer_slot(qkv_w), layer_slot(qkv_b)}, {B, T, 3 * C});
  std::vector<int> heads;
  for (const int offset : {0, C, 2 * C})
    heads.push_back(block.add("split_heads", {{"offset", offset}, {"heads", 2}, {"head_dim", C / 2}},
                              json::array({layer_slot(qkv)}), {B, T, 2, C / 2}));
  const int mixed = block.add(
      "attention", {{"causal", true}, {"scale", 0.7}, {"dropout", 0.2}, {"site", 1}},
      {layer_slot(heads[0]), layer_slot(heads[1]), layer_slot(heads[2]), fixed_slot(rng)}, {B, T, 2, C / 2});
  const int out = block.add("linear", kNone, {layer_slot(mixed), layer_slot(out_w), nullptr}, {B, T, C});
  const int act = block.add("gelu_tanh", kNone, json::array({layer_slot(out)}), {B, T, C});
  const int kept =
      block.add("dropout", {{"p", 0.2}, {"site", 2}}, {layer_slot(act), fixed_slot(rng)}, {B, T, C});
  block.add_to("add", kNone, {layer_slot(residual), layer_slot(kept)}, layer_slot(residual, 1));

  job.region("epilogue");
  const int final_norm = job.activation("final_norm", {B, T, C});
  job.raw_node({{"op", "layernorm"},
                {"attrs", {{"eps", 1e-5}}},
                {"inputs", {fixed_slot(residual, L), fixed_slot(final_w), nullptr}},
                {"outputs", {fixed_slot(final_norm)}}});
  const int logits = job.node("linear", kNone, {final_norm, wte, kLeftOut}, {B, T, V});
  job.sum_as_loss(job.node("cross_entropy", {{"label_smoothing", 0.1}}, {logits, targets}, {B, T}), 0.2);
}

void build_llama(JobFolder& job) {
  constexpr int B = 2, T = 3, F = 3, C = 4, D = 2;
  const double missing = std::numeric_limits<double>::quiet_NaN();
  const int x = job.input("features", {B, T, F}, wavy(B * T * F, 1));
  const int targets = job.input("targets", {B, T, 2}, {1, 2, missing, 0, -1, 0.5, 0, 1, 2, missing, 1, -2});
  const int in_w = job.parameter("in.weight", {C, F}, wavy(C * F, 2));
  const int in_b = job.parameter("in.bias", {C}, wavy(C, 3));
  const int norm_w = job.parameter("norm.weight", {C}, near_one(C, 4));
  const int q_w = job.parameter("q.weight", {2 * D, C}, wavy(2 * D * C, 5));
  const int k_w = job.parameter("k.weight", {D, C}, wavy(D * C, 6));
  const int v_w = job.parameter("v.weight", {D, C}, wavy(D * C, 7));
  const int q_norm = job.parameter("q_norm.weight", {D}, near_one(D, 8));
  const int up_w = job.parameter("up.weight", {8, 4}, wavy(32, 9));
  const int up2_w = job.parameter("up2.weight", {4, 4}, wavy(16, 10));
  const int head_w = job.parameter("head.weight", {2, 2}, wavy(4, 11));

  const int h = job.node("linear", kNone, {x, in_w, in_b}, {B, T, C});
  const int norm = job.node("rmsnorm", {{"eps", 1e-6}}, {h, norm_w}, {B, T, C});
  const auto split = [&](int weight, int heads) {
    const int flat = job.node("linear", kNone, {norm, weight, kLeftOut}, {B, T, heads * D});
    return job.node("split_heads", {{"offset", 0}, {"heads", heads}, {"head_dim", D}}, {flat},
                    {B, T, heads, D});
  };
  const int q = split(q_w, 2), k = split(k_w, 1), v = split(v_w, 1);
  const int q_scaled = job.node("rmsnorm", {{"eps", 1e-6}}, {q, q_norm}, {B, T, 2, D});
  const int q_turned = job.node("rope", {{"theta", 10.0}}, {q_scaled, kLeftOut, kLeftOut}, {B, T, 2, D});
  const int k_turned = job.node("rope", {{"theta", 10.0}}, {k, kLeftOut, kLeftOut}, {B, T, 1, D});
  const int mixed = job.node("attention", {{"causal", true}, {"scale", 0.7}},
                             {q_turned, k_turned, v, kLeftOut}, {B, T, 2, D});
  const int up = job.node("linear", kNone, {mixed, up_w, kLeftOut}, {B, T, 8});
  const int gated = job.node("swiglu", kNone, {up}, {B, T, 4});
  const int up2 = job.node("linear", kNone, {gated, up2_w, kLeftOut}, {B, T, 4});
  const int gated2 = job.node("geglu", {{"tanh", false}}, {up2}, {B, T, 2});
  const int smooth = job.node("silu", kNone, {job.node("gelu", kNone, {gated2}, {B, T, 2})}, {B, T, 2});
  const int prediction = job.node("linear", kNone, {smooth, head_w, kLeftOut}, {B, T, 2});
  job.sum_as_loss(job.node("mse", kNone, {prediction, targets}, {B, T}), 1.0 / (B * T));
}

}  // namespace hydrac::oracle
