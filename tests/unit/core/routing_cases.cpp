// Cases of routers that choose tokens, and of what moves the chosen ones.
#include <cmath>

#include "case_inputs.h"

namespace hydrac::test {

// Five tokens a sequence, of which three are chosen.
void add_routing_cases(std::vector<OpCase>& cases) {
  const CaseInput tokens = ids({2, 3}, {0, 2, 3, 1, 2, 4}),
                  places = ids({2, 5}, {0, -1, 1, 2, -1, -1, 0, 1, -1, 2});
  const auto choice = [](const Uses& in) { return ops::TokenChoice{in[1], in[2]}; };
  for (const auto& [label, width] : {std::pair{"", 4}, std::pair{"OfNumbers", 0}}) {
    const auto shape = [width](int64_t rows) {
      return width > 0 ? std::vector<int64_t>{2, rows, width} : std::vector<int64_t>{2, rows};
    };
    cases.push_back({std::string("take_tokens") + label,
                     {x(shape(5)), tokens, places},
                     [=](RegionBuilder& b, const Uses& in) { ops::take_tokens(b, in[0], choice(in), "y"); }});
    cases.push_back(
        {std::string("spread_tokens") + label,
         {x(shape(3)), tokens, places},
         [=](RegionBuilder& b, const Uses& in) { ops::spread_tokens(b, in[0], choice(in), "y"); }});
  }
  const auto counts = [](ir::Op op, ir::Attributes attributes, ir::Shape shape) {
    return [=](RegionBuilder& b, const Uses& in) {
      b.emit_node(op, in, {b.fresh("y", shape, ir::DType::i32)}, attributes);
    };
  };
  const ir::Shape all = {{2, ""}, {5, ""}};
  // Equal scores: the earlier token's counts as higher.
  cases.push_back({"score_ranks",
                   {given({2, 5}, {0.5, -1, 0.5, 2, 0.5, -3, -3, -3, 1e-30, -1e-30})},
                   counts(ir::Op::score_ranks, {}, all),
                   false});
  cases.push_back({"chosen_places",
                   {ids({2, 5}, {1, 4, 2, 0, 3, 2, 0, 3, 1, 4})},
                   counts(ir::Op::chosen_places, {{"chosen", int64_t{3}}}, all),
                   false});
  cases.push_back({"chosen_tokens", {places}, counts(ir::Op::chosen_tokens, {}, {{2, ""}, {3, ""}}), false});
  CaseInput seen = x({2, 3, 5}, Kind::constant);
  seen.values.assign(30, 0);
  for (size_t i = 0; i < seen.values.size(); ++i) seen.values[i] = std::sin(static_cast<double>(i));
  cases.push_back(
      {"token_scoreDetached", {seen, parameter({5}), parameter({1})}, [](RegionBuilder& b, const Uses& in) {
         ops::token_score(b, in[0], in[1], in[2], "y", true);
       }});
  cases.push_back({"predicted_places",
                   {given({2, 5}, {3, -1, 0.5, 0, 1e-3, -2, -1, 4, -40, 40})},
                   counts(ir::Op::predicted_places, {}, all),
                   false});
  cases.push_back({"chosen_tokensFewerThanPlaces", {places}, counts(ir::Op::chosen_tokens, {}, all), false});
  cases.push_back({"chosen_flags",
                   {places},
                   [](RegionBuilder& b, const Uses& in) { ops::chosen_flags(b, in[0], "y"); },
                   false});
  cases.push_back({"places_before",
                   {given({2, 4, 1}, {1, 0, 1, 1, 0, 0, 0, 1})},
                   [](RegionBuilder& b, const Uses& in) { ops::places_before(b, in[0], "y"); },
                   false});
  const CaseInput logits = given({2, 5}, {3, -1, 0.5, -40, 40, 0, -2, 40, 1e-3, -3});
  cases.push_back({"choice_loss", {x({2, 5}), places}, [](RegionBuilder& b, const Uses& in) {
                     ops::choice_loss(b, in[0], in[1], "y");
                   }});
  cases.push_back({"choice_lossOfLargeLogits", {logits, places}, [](RegionBuilder& b, const Uses& in) {
                     ops::choice_loss(b, in[0], in[1], "y");
                   }});
  cases.push_back({"choice_hits",
                   {logits, places},
                   [](RegionBuilder& b, const Uses& in) { ops::choice_hits(b, in[0], in[1], "y"); },
                   false});
  cases.push_back({"gate_rows", {x({2, 3, 5}), x({2, 3})}, [](RegionBuilder& b, const Uses& in) {
                     ops::gate_rows(b, in[0], in[1], "y");
                   }});
}

}  // namespace hydrac::test
