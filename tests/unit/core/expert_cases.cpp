// Cases of a mixture of experts: a router's choice, the rows of experts, and their matmuls.
#include "case_inputs.h"

namespace hydrac::test {

namespace {

// Two sequences of three tokens, four experts, of which two are chosen: the first of equal scores. Nobody
// chooses the last.
const std::vector<double> kScores = {0.5, 0.25, 0.25, 0,   0.1, 0.4, 0.4, 0.1, 0.3, 0.3, 0.3, 0.1,
                                     0.1, 0.2,  0.6,  0.1, 0.7, 0.1, 0.2, 0,   0.2, 0.3, 0.4, 0.1};
const std::vector<double> kRanks = {0, 1, 2, 3, 2, 0, 1, 3, 0, 1, 2, 3, 2, 1, 0, 3, 0, 2, 1, 3, 2, 1, 0, 3};
const std::vector<double> kChosen = {0, 1, 1, 2, 0, 1, 2, 1, 0, 2, 2, 1};

void add_choices(std::vector<OpCase>& cases) {
  const CaseInput ranks = ids({2, 3, 4}, kRanks), chosen = ids({2, 3, 2}, kChosen);
  for (const bool sigmoid : {false, true})
    cases.push_back({sigmoid ? "router_scoresSigmoid" : "router_scoresSoftmax",
                     {x({2, 3, 4})},
                     [=](RegionBuilder& b, const Uses& in) { ops::router_scores(b, in[0], sigmoid, "y"); }});
  cases.push_back({"expert_ranks",
                   {given({2, 3, 4}, kScores)},
                   [](RegionBuilder& b, const Uses& in) {
                     b.emit_node(ir::Op::expert_ranks, in, {b.fresh("y", b.shape(in[0]), ir::DType::i32)});
                   },
                   false});
  cases.push_back({"chosen_experts",
                   {ranks},
                   [](RegionBuilder& b, const Uses& in) {
                     const ir::Shape shape = {{2, ""}, {3, ""}, {2, ""}};
                     b.emit_node(ir::Op::chosen_experts, in, {b.fresh("y", shape, ir::DType::i32)});
                   },
                   false});
  for (const bool normalize : {false, true}) {
    CaseInput scores = x({2, 3, 4});
    scores.values = kScores;
    cases.push_back({normalize ? "expert_weightsNormalized" : "expert_weights",
                     {scores, chosen, ranks},
                     [=](RegionBuilder& b, const Uses& in) {
                       ops::expert_weights(b, in[0], {in[1], in[2]}, normalize, 2.5, "y");
                     }});
  }
  cases.push_back({"expert_load",
                   {ranks, chosen},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::expert_load(b, {in[1], in[0]}, "y");
                   },
                   false});
  cases.push_back({"largest_load",
                   {given({4}, {3, 0, 6, 1})},
                   [](RegionBuilder& b, const Uses& in) { ops::largest_load(b, in[0], "y"); },
                   false});
  CaseInput scores = x({2, 3, 4});
  for (size_t i = 0; i < kScores.size(); ++i) scores.values.push_back(kScores[i] + 0.1);
  cases.push_back(
      {"router_loss", {x({2, 3, 4}), scores, given({4}, {3, 5, 4, 0})}, [](RegionBuilder& b, const Uses& in) {
         ops::router_loss(b, in[0], in[1], in[2], {.balance = 0.5, .z = 0.125}, "y");
       }});
  cases.push_back({"router_entropy",
                   {scores},
                   [](RegionBuilder& b, const Uses& in) { ops::router_entropy(b, in[0], "y"); },
                   false});
}

// In blocks of four rows: 3 of expert 0, 5 of 1, 4 of 2, none of 3, in room for two blocks more.
constexpr int64_t kRows = 24;
const std::vector<double> kSource = {0, 4, 8, -1, 1,  2,  5,  7,  11, -1, -1, -1,
                                     3, 6, 9, 10, -1, -1, -1, -1, -1, -1, -1, -1};
const std::vector<double> kPlace = {0, 4, 5, 12, 1, 6, 13, 7, 2, 14, 15, 8};
const std::vector<double> kOffsets = {0, 4, 12, 16, 16};

void add_rows(std::vector<OpCase>& cases) {
  for (const int64_t block : {1, 4})
    cases.push_back({block == 1 ? "expert_rows" : "expert_rowsInBlocks",
                     {ids({2, 3, 2}, kChosen)},
                     [=](RegionBuilder& b, const Uses& in) { ops::expert_rows(b, in[0], 4, block); },
                     false});
  const CaseInput source = ids({kRows}, kSource), place = ids({2, 3, 2}, kPlace);
  cases.push_back({"expert_inputs", {x({2, 3, 5}), source, place}, [](RegionBuilder& b, const Uses& in) {
                     ops::expert_inputs(b, in[0], {in[1], in[2], {}}, "y");
                   }});
  cases.push_back(
      {"combined_rows", {x({kRows, 5}), source, place, x({2, 3, 2})}, [](RegionBuilder& b, const Uses& in) {
         ops::combined_rows(b, in[0], {in[1], in[2], {}}, in[3], "y");
       }});
}

void add_matmuls(std::vector<OpCase>& cases) {
  cases.push_back({"grouped_matmul",
                   {x({12, 5}), parameter({4 * 3, 5}), ids({5}, {0, 3, 8, 12, 12})},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::grouped_matmul(b, in[0], in[1], {{}, {}, in[2]}, {3, ""}, false, "y");
                   }});
}

}  // namespace

void add_expert_cases(std::vector<OpCase>& cases) {
  add_choices(cases);
  add_rows(cases);
  add_matmuls(cases);
}

}  // namespace hydrac::test
