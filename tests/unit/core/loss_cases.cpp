// Cases of losses, and of what a mixture of recursions adds to them.
#include <limits>

#include "case_inputs.h"

namespace hydrac::test {

namespace {

void add_losses(std::vector<OpCase>& cases) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (double smoothing : {0.0, 0.2}) {
    for (int64_t padding : {0, 2}) {
      for (double softcap : {0.0, 1.5}) {
        const std::string label =
            std::string(smoothing > 0 ? "Smoothed" : "") + (softcap > 0 ? "Capped" : "");
        cases.push_back({"cross_entropy" + label + (padding > 0 ? "Padded" : ""),
                         {x({2, 3, 7 + padding}), ids({2, 3}, {0, 6, -100, 3, -100, 3})},
                         [smoothing, softcap](RegionBuilder& b, const Uses& in) {
                           ops::cross_entropy(b, in[0], in[1], 7, softcap, smoothing, "y");
                         }});
      }
    }
  }
  cases.push_back({"softcap", {x({2, 3, 5})}, [](RegionBuilder& b, const Uses& in) {
                     ops::softcap(b, in[0], 1.5, "y");
                   }});
  // Classes 0 to 4 of a rank, of which 3 exist in the padded case; another rank's targets, and one ignored.
  for (const bool padded : {false, true}) {
    for (double smoothing : {0.0, 0.1}) {
      for (double softcap : {0.0, 1.5}) {
        OpCase part{std::string("cross_entropy_part") + (smoothing > 0 ? "Smoothed" : "") +
                        (softcap > 0 ? "Capped" : "") + (padded ? "Padded" : ""),
                    {x({2, 3, 5}), ids({2, 3}, {0, 2, -100, -1, 1, -1})},
                    [smoothing, softcap](RegionBuilder& b, const Uses& in) {
                      ir::Attributes attributes = {{"label_smoothing", smoothing}, {"classes", int64_t{8}}};
                      if (softcap > 0) attributes["softcap"] = softcap;
                      b.emit_node(ir::Op::cross_entropy_part, in,
                                  {b.fresh("lse", b.shape(in[1])), b.fresh("target", b.shape(in[1]))},
                                  std::move(attributes));
                    }};
        part.outputs_with_gradient = {0, 1};
        if (padded) part.inputs.push_back(ids({}, {3}));
        cases.push_back(std::move(part));
      }
    }
  }
  cases.push_back({"cross_entropy_of_parts",
                   {x({2, 2, 3}), x({2, 2, 3}), ids({2, 3}, {0, 2, -100, -1, 1, -1})},
                   [](RegionBuilder& b, const Uses& in) {
                     b.emit_node(ir::Op::cross_entropy_of_parts, in,
                                 {b.fresh("losses", b.shape(in[2])), b.fresh("lse", b.shape(in[2]))});
                   }});
  cases.push_back({"cross_entropyOneClass",
                   {x({2, 2, 1}), ids({2, 2}, {0, 0, -100, 0})},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::cross_entropy(b, in[0], in[1], b.shape(in[0]).back().size, 0, 0, "y");
                   }});
  for (int64_t padding : {0, 2}) {
    OpCase hits{
        std::string("hits") + (padding > 0 ? "Padded" : ""),
        {x({2, 3, 4 + padding}), ids({2, 3}, {0, 3, -100, 1, 2, 1})},
        [](RegionBuilder& b, const Uses& in) { ops::hits(b, in[0], in[1], 4, b.fresh("count", {})); }};
    // Equal largest logits in the first row, whose target is the first of them, and in the last, where it is
    // not.
    const std::vector<std::vector<double>> logits = {{2, 1, 2, 0}, {-1, 3, 1, 4}, {9, 0, 0, 0},
                                                     {1, 2, 1, 1}, {0, 3, 2, 1},  {5, 5, 1, 0}};
    for (const std::vector<double>& row : logits) {
      hits.inputs[0].values.insert(hits.inputs[0].values.end(), row.begin(), row.end());
      hits.inputs[0].values.insert(hits.inputs[0].values.end(), static_cast<size_t>(padding), 100);
    }
    hits.has_gradient = false;
    cases.push_back(std::move(hits));
  }
  const auto score = [](RegionBuilder& b, const Uses& in) { ops::token_score(b, in[0], in[1], in[2], "y"); };
  cases.push_back({"token_score", {x({2, 3, 5}), parameter({5}), parameter({1})}, score});
  cases.push_back({"token_scoreWithoutBias", {x({2, 3, 5}), parameter({5}), absent()}, score});
  cases.push_back({"mse",
                   {x({2, 2, 3}), given({2, 2, 3}, {1, nan, 2, nan, nan, nan, 0, -1, 0.5, nan, 1, 1})},
                   [](RegionBuilder& b, const Uses& in) { ops::mse(b, in[0], in[1], "y"); }});
  cases.push_back({"mseOneOutput",
                   {x({2, 3, 1}), given({2, 3, 1}, {1, nan, 2, 3, 4, nan})},
                   [](RegionBuilder& b, const Uses& in) { ops::mse(b, in[0], in[1], "y"); }});
  cases.push_back(
      {"pointwise_loss",
       {x({2, 2, 3}), given({2, 2, 3}, {1, nan, 2, nan, nan, nan, 0, -1, 0.5, nan, 1, 1})},
       [](RegionBuilder& b, const Uses& in) { ops::pointwise_loss(b, own_function(2), in[0], in[1], "y"); }});
  OpCase mean{"mean_loss", {x({2, 3}), given({}, {0.25})}, [](RegionBuilder& b, const Uses& in) {
                ops::mean_loss(b, in[0], in[1], b.fresh("loss", {}), false);
              }};
  mean.unit_gradient = true;
  cases.push_back(mean);
  OpCase weighted{"mean_lossOfWeights",
                  {x({2, 3}), given({}, {0.25}), given({2, 3}, {1, 0, -2, 0.5, 3, -0.25})},
                  [](RegionBuilder& b, const Uses& in) {
                    ops::mean_loss(b, in[0], in[1], b.fresh("loss", {}), false, {}, in[2]);
                  }};
  weighted.unit_gradient = true;
  cases.push_back(weighted);
  for (const bool grows : {false, true}) {
    OpCase auxiliary{grows ? "auxiliary_lossOfWarmup" : "auxiliary_loss",
                     {x({2, 3}), grows ? ids({}, {2}) : absent()},
                     [grows](RegionBuilder& b, const Uses& in) {
                       const ops::AuxiliaryWeight weight{
                           .weight = 0.5, .warmup_steps = grows ? 4 : 0, .step = in[1], .accumulate = false};
                       ops::auxiliary_loss(b, in[0], weight, b.fresh("loss", {}));
                     }};
    auxiliary.unit_gradient = true;
    cases.push_back(auxiliary);
  }
  for (const int64_t vectors : {2, 3, 5}) {
    cases.push_back({"pairwise_cosine_distanceOf" + std::to_string(vectors),
                     {x({4, vectors, 7})},
                     [vectors](RegionBuilder& b, const Uses& in) {
                       ops::pairwise_cosine_distance(
                           b, in[0],
                           {b.fresh("distance", {{4, ""}}), b.fresh("of_each", {{4, ""}, {vectors, ""}})});
                     }});
  }
  cases.push_back({"one_hot",
                   {ids({2, 3}, {3, -1, 0, 3, 4, 5})},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::one_hot(b, in[0], {5, ""}, "y");
                   },
                   false});
}

// Logits whose depths are all that there are, and none of which is on the edge of two.
void add_recursion(std::vector<OpCase>& cases) {
  for (const int64_t recursions : {2, 3, 4}) {
    CaseInput logit = x({2, 3});
    logit.values = {-3, -0.8, -0.1, 0.2, 0.9, 2.5};
    cases.push_back(
        {"recursion_depthOf" + std::to_string(recursions),
         {logit},
         [recursions](RegionBuilder& b, const Uses& in) { ops::recursion_depth(b, in[0], recursions, "y"); },
         true,
         {1}});
  }
  for (const double spread : {0.5, 1.5}) {  // var(logit) below 0.5, and above
    CaseInput logit = x({2, 3});
    for (const double number : {-1.0, 0.1, 0.4, 0.9, -0.3, 1.2}) logit.values.push_back(spread * number);
    cases.push_back({spread < 1 ? "recursion_loss" : "recursion_lossOfSpreadLogits",
                     {logit},
                     [](RegionBuilder& b, const Uses& in) {
                       ops::recursion_loss(b, in[0], {.depth = 0.3, .variance = 0.7, .logit = 0.2}, "y");
                     }});
  }
  cases.push_back(
      {"masked_add",
       {x({2, 3, 5}), x({2, 3, 5}), given({2, 3}, {0, 1, 2, 3, 1, 2})},
       [](RegionBuilder& b, const Uses& in) { ops::masked_add(b, in[0], in[1], in[2], 2, "y"); }});
  // The weight's gradient is that of no finite difference: StraightThroughGivesTheWeightAGradient.
  cases.push_back({"straight_through",
                   {x({2, 3, 5}), given({2, 3}, {0, 1, 2, 3, 1, 2})},
                   [](RegionBuilder& b, const Uses& in) { ops::straight_through(b, in[0], in[1], "y"); }});
  cases.push_back({"statistic",
                   {x({2, 3})},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::statistic(b, in[0], 0.25, b.fresh("statistic", {}), false);
                   },
                   false});
  cases.push_back({"statisticScaled",
                   {x({2, 3}), given({}, {0.5})},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::statistic(b, in[0], 0.25, b.fresh("statistic", {}), false, in[1]);
                   },
                   false});
}

// Two pairs in the first row, whose texts are interleaved, one in the second. The second pair of that is
// none, and one token belongs to nobody.
void add_pairs(std::vector<OpCase>& cases) {
  OpCase sums{"pair_sums",
              {x({2, 7}), ids({2, 7}, {0, 1, 2, 0, 3, 1, 0, -1, 0, 1, 1, 1, -1, 0})},
              [](RegionBuilder& b, const Uses& in) {
                ops::pair_sums(b, in[0], in[1], ir::Dim{2, "Pairs"}, "pair");
              }};
  sums.outputs_with_gradient = {0, 1};
  cases.push_back(std::move(sums));
  CaseInput chosen = x({2, 2}), rejected = x({2, 2});
  chosen.values = {-1.5, -4, -2.5, 0};
  rejected.values = {-2, -1, -0.5, 0};
  const CaseInput tokens = given({2, 2}, {3, 1, 2, 0}), others = given({2, 2}, {1, 4, 2, 0}),
                  chosen_reference = given({2, 2}, {-1, -5, -2, 0}),
                  rejected_reference = given({2, 2}, {-3, -2, -1, 0});
  for (const std::string rule : {"dpo", "ipo", "simpo", "orpo", "apo_zero", "apo_down"}) {
    const bool has_reference = rule != "simpo" && rule != "orpo";
    for (const double smoothing : {0.0, 0.1})
      cases.push_back({"preference_loss_" + rule + (smoothing > 0 ? "Smoothed" : ""),
                       {chosen, rejected, tokens, others, has_reference ? chosen_reference : absent(),
                        has_reference ? rejected_reference : absent()},
                       [rule, smoothing](RegionBuilder& b, const Uses& in) {
                         ops::preference_loss(b, {in[0], in[1], in[2], in[3]}, in[4], in[5],
                                              {rule, 0.7, 0.4, smoothing}, "pair");
                       }});
  }
}

}  // namespace

void add_loss_cases(std::vector<OpCase>& cases) {
  add_losses(cases);
  add_pairs(cases);
  add_recursion(cases);
}

}  // namespace hydrac::test
