// Cases of attention: its rules and documents, compressed attention, and attention that reads a cache.
#include "case_inputs.h"

namespace hydrac::test {

namespace {

void add_attention(std::vector<OpCase>& cases) {
  const CaseInput cos = given({3, 2}, {0.1, 0.2, 0.3, -0.4, 0.5, 0.6}),
                  sin = given({3, 2}, {0.9, -0.8, 0.7, 0.6, -0.5, 0.4});
  const auto emit_rope = [](RegionBuilder& b, const Uses& in) { ops::rope(b, in[0], in[1], in[2], {}, "y"); };
  cases.push_back({"rope", {x({2, 3, 2, 4}), cos, sin}, emit_rope});
  cases.push_back({"ropeOneHead", {x({2, 3, 1, 4}), cos, sin}, emit_rope});
  cases.push_back(
      {"ropePositions",
       {x({2, 3, 2, 4}), cos, sin, ids({2, 3}, {0, 1, 0, 0, 0, 2})},
       [](RegionBuilder& b, const Uses& in) { ops::rope(b, in[0], in[1], in[2], {}, "y", in[3]); }});
  cases.push_back({"ropeInverse",
                   {x({2, 3, 2, 4}), cos, sin},
                   [](RegionBuilder& b, const Uses& in) {
                     b.emit(ir::Op::rope, in, "y", b.shape(in[0]), {{"inverse", true}});
                   },
                   false});
  cases.push_back({"ropeInterleaved", {x({2, 3, 2, 4}), cos, sin}, [](RegionBuilder& b, const Uses& in) {
                     ops::rope(b, in[0], in[1], in[2], {ops::RopePairs::neighbours}, "y");
                   }});
  cases.push_back({"ropePartOfHead", {x({2, 3, 2, 7}), cos, sin}, emit_rope});
  cases.push_back(
      {"ropePartOfHeadInterleaved", {x({2, 3, 2, 6}), cos, sin}, [](RegionBuilder& b, const Uses& in) {
         ops::rope(b, in[0], in[1], in[2], {ops::RopePairs::neighbours}, "y");
       }});
  // Tables of two tokens, twice; layer 0 is one of period 1 and none of period 2.
  const CaseInput cos_twice = given({4, 2}, {0.1, 0.2, 0.3, -0.4, 0.5, 0.6, 0.7, 0.8}),
                  sin_twice = given({4, 2}, {0.9, -0.8, 0.7, 0.6, -0.5, 0.4, 0.3, -0.2});
  for (const int64_t period : {1, 2}) {
    cases.push_back({"ropeEvery" + std::to_string(period),
                     {x({2, 2, 2, 4}), cos_twice, sin_twice},
                     [period](RegionBuilder& b, const Uses& in) {
                       ops::rope(b, in[0], in[1], in[2], {ops::RopePairs::halves, period}, "y");
                     }});
    cases.push_back({"ropePositionsEvery" + std::to_string(period),
                     {x({2, 2, 2, 4}), cos_twice, sin_twice, ids({2, 2}, {1, 0, 0, 1})},
                     [period](RegionBuilder& b, const Uses& in) {
                       ops::rope(b, in[0], in[1], in[2], {ops::RopePairs::halves, period}, "y", in[3]);
                     }});
  }
  cases.push_back({"split_qkv",
                   {x({2, 3, 24})},
                   [](RegionBuilder& b, const Uses& in) { ops::split_qkv(b, in[0], 2, 2, 4, "attn"); },
                   true,
                   {0, 1, 2}});
  cases.push_back({"split_qkvByHead",
                   {x({2, 3, 24})},
                   [](RegionBuilder& b, const Uses& in) { ops::split_qkv_by_head(b, in[0], 2, 4, "attn"); },
                   true,
                   {0, 1, 2}});
  cases.push_back({"split_qkvGrouped",
                   {x({2, 3, 32})},
                   [](RegionBuilder& b, const Uses& in) { ops::split_qkv(b, in[0], 4, 2, 4, "attn"); },
                   true,
                   {0, 1, 2}});
  for (int64_t kv_heads : {1, 2, 4}) {
    for (double dropout : {0.0, 0.3}) {
      cases.push_back({"attention" + std::to_string(kv_heads) + "KvHeads" + (dropout > 0 ? "Dropout" : ""),
                       {x({2, 5, 4, 3}), x({2, 5, kv_heads, 3}), x({2, 5, kv_heads, 3}), word(9), word(1234)},
                       [dropout](RegionBuilder& b, const Uses& in) {
                         ops::attention(b, in[0], in[1], in[2], 0.7, {}, dropout, {in[3], in[4]}, 1, "y");
                       }});
    }
  }
}

// Two rows of 5 tokens: documents of 2, 3 and 1, 3, 1 tokens.
CaseInput two_rows_of_documents() {
  return ids({2, 5, 2}, {0, 2, 0, 2, 2, 5, 2, 5, 2, 5, 0, 1, 1, 4, 1, 4, 1, 4, 4, 5});
}

void add_compressed_attention(std::vector<OpCase>& cases) {
  // The second input, where there is one: documents.
  const auto emit_sums = [](int64_t taps, const std::vector<std::vector<int64_t>>& parts,
                            int64_t before = 0) {
    return [taps, parts, before](RegionBuilder& b, const Uses& in) {
      std::vector<ops::TapSums> sums;
      for (const std::vector<int64_t>& sizes : parts) {
        sums.push_back({"y" + std::to_string(sums.size()), {}});
        for (const int64_t size : sizes) sums.back().shape.push_back({size, ""});
      }
      ops::sum_taps(b, in[0], taps, sums, before, in.size() > 1 ? in[1] : ir::Use{});
    };
  };
  cases.push_back({"sum_taps", {x({2, 5, 12})}, emit_sums(3, {{4}})});
  cases.push_back({"sum_tapsOfHeads", {x({2, 5, 12})}, emit_sums(2, {{3, 2}})});
  cases.push_back({"sum_tapsParts", {x({2, 4, 15})}, emit_sums(3, {{2}, {3}}), true, {0, 1}});
  cases.push_back({"sum_tapsPartsOfHeads", {x({2, 4, 20})}, emit_sums(2, {{3, 2}, {2, 2}}), true, {0, 1}});
  cases.push_back({"sum_tapsOneTap", {x({2, 3, 4})}, emit_sums(1, {{4}})});
  cases.push_back({"sum_tapsShortSequence", {x({2, 2, 8})}, emit_sums(4, {{2}})});
  cases.push_back({"sum_tapsOfTheLastToken", {x({3, 3, 15})}, emit_sums(3, {{2}, {3}}, 2), false});
  cases.push_back({"sum_tapsBehindOneToken", {x({2, 4, 12})}, emit_sums(3, {{2, 2}}, 1), false});
  const CaseInput documents = two_rows_of_documents();
  cases.push_back({"sum_tapsDocuments", {x({2, 5, 12}), documents}, emit_sums(3, {{4}})});
  cases.push_back({"sum_tapsDocumentsOfHeads", {x({2, 5, 24}), documents}, emit_sums(4, {{3, 2}})});
  cases.push_back(
      {"sum_tapsDocumentsParts", {x({2, 5, 15}), documents}, emit_sums(3, {{2}, {3}}), true, {0, 1}});
  cases.push_back({"value_shiftDocuments",
                   {x({2, 5, 3, 4}), documents},
                   [](RegionBuilder& b, const Uses& in) { ops::value_shift(b, in[0], "y", 0, in[1]); }});
  for (const int64_t before : {1, 2}) {
    cases.push_back({"value_shiftBehind" + std::to_string(before) + "Tokens",
                     {x({2, before + 1, 3, 4})},
                     [before](RegionBuilder& b, const Uses& in) { ops::value_shift(b, in[0], "y", before); },
                     false});
  }
  for (const int64_t heads : {1, 2, 3}) {
    cases.push_back({"value_shift" + std::to_string(heads) + "Heads",
                     {x({2, 3, heads, 4})},
                     [](RegionBuilder& b, const Uses& in) { ops::value_shift(b, in[0], "y"); }});
  }
  cases.push_back({"value_shiftOneToken", {x({2, 1, 2, 4})}, [](RegionBuilder& b, const Uses& in) {
                     ops::value_shift(b, in[0], "y");
                   }});
  const auto emit_blocks = [](int64_t groups, int64_t columns, int64_t first) {
    return [groups, columns, first](RegionBuilder& b, const Uses& in) {
      ops::block_diagonal(b, in[0], groups, {columns, ""}, first, "y");
    };
  };
  cases.push_back({"block_diagonal", {parameter({12, 2})}, emit_blocks(3, 6, 0)});
  cases.push_back({"block_diagonalAmongOthers", {parameter({12, 2})}, emit_blocks(3, 11, 2)});
  cases.push_back({"block_diagonalOneBlock", {parameter({6, 3})}, emit_blocks(1, 5, 2)});
  cases.push_back({"head_sum", {x({2, 3, 4, 5})}, [](RegionBuilder& b, const Uses& in) {
                     ops::head_sum(b, in[0], 0.25, "y");
                   }});
  cases.push_back({"scale_heads", {x({2, 3, 2, 5})}, [](RegionBuilder& b, const Uses& in) {
                     ops::scale_heads(b, in[0], {2, ""}, 0.5, "y");
                   }});
  cases.push_back({"scale_headsOneForAll", {x({2, 3, 5})}, [](RegionBuilder& b, const Uses& in) {
                     ops::scale_heads(b, in[0], {4, ""}, 0.5, "y");
                   }});
  cases.push_back({"l2norm", {x({2, 3, 2, 4}), absent()}, [](RegionBuilder& b, const Uses& in) {
                     ops::l2norm(b, in[0], in[1], "y");
                   }});
  cases.push_back({"l2normTemperature",
                   {x({2, 3, 2, 4}), parameter({1})},
                   [](RegionBuilder& b, const Uses& in) { ops::l2norm(b, in[0], in[1], "y"); }});
}

void add_attention_rules(std::vector<OpCase>& cases) {
  using Mask = ops::AttentionRules::Mask;
  const std::pair<const char*, ops::AttentionRules> all[] = {
      {"Full", {.mask = Mask::full}},
      {"Window", {.mask = Mask::window, .window = 2}},
      {"WideWindow", {.mask = Mask::window, .window = 9}},
      {"LayersWithoutWindow", {.mask = Mask::window, .window = 2, .window_period = 1}},
      {"Softcap", {.softcap = 0.8}},
      {"WindowSoftcap", {.mask = Mask::window, .window = 3, .softcap = 2}},
  };
  for (const auto& [name, rules] : all) {
    for (double dropout : {0.0, 0.3}) {
      cases.push_back({std::string("attention") + name + (dropout > 0 ? "Dropout" : ""),
                       {x({2, 5, 4, 3}), x({2, 5, 2, 3}), x({2, 5, 2, 3}), word(9), word(1234)},
                       [dropout, rules](RegionBuilder& b, const Uses& in) {
                         ops::attention(b, in[0], in[1], in[2], 0.7, rules, dropout, {in[3], in[4]}, 1, "y");
                       }});
    }
  }
}

void add_cache(std::vector<OpCase>& cases) {
  using Mask = ops::AttentionRules::Mask;
  const CaseInput cache = x({3, 2, 6, 4});
  cases.push_back({"cache_append",
                   {x({2, 4, 2, 4}), x({2, 4, 2, 4}), ids({2}, {2, -1}), cache, cache},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::cache_append(b, in[0], in[1], {in[3], in[4]}, in[2]);
                   },
                   false});
  // Three sequences of up to six tokens in pages of three.
  const CaseInput pool = x({5, 2, 3, 4}), pages = ids({3, 2}, {4, 0, 1, -1, 3, 2});
  cases.push_back({"cache_appendPaged",
                   {x({3, 4, 2, 4}), x({3, 4, 2, 4}), ids({3}, {2, -1, 1}), pool, pool, pages},
                   [](RegionBuilder& b, const Uses& in) {
                     ops::cache_append(b, in[0], in[1], {in[3], in[4], in[5]}, in[2]);
                   },
                   false});
  const CaseInput history = x({3, 3, 2, 4});
  cases.push_back(
      {"history_append",
       {x({3, 5, 2, 4}), ids({3}, {2, -1, 0}), ids({3}, {4, 4, 1}), history},
       [](RegionBuilder& b, const Uses& in) { ops::history_append(b, in[0], in[3], in[1], in[2]); },
       false});
  cases.push_back(
      {"history_window",
       {x({3, 1, 2, 4}), ids({3, 1}, {0, 7, 2}), history},
       [](RegionBuilder& b, const Uses& in) { ops::history_window(b, in[0], in[2], in[1], "window"); },
       false});
  for (const int64_t top : {3, 7}) {
    cases.push_back(
        {"top_logits" + std::to_string(top),
         {x({3, 1, 8}), given({}, {0.5}), ids({}, {7}), given({3, 2}, {-1, 0, 0.5, 0.1, 0.875, 0})},
         [top](RegionBuilder& b, const Uses& in) {
           ops::top_logits(
               b, in[0], in[1], in[2], in[3],
               {b.fresh("values", {{3, ""}, {top, ""}}), b.fresh("ids", {{3, ""}, {top, ""}}, ir::DType::i32),
                b.fresh("sums", {{3, ""}}), b.fresh("drawn", {{3, ""}}, ir::DType::i32)});
         },
         false});
  }
  const std::pair<const char*, ops::AttentionRules> all[] = {
      {"", {}}, {"Window", {.mask = Mask::window, .window = 2}}, {"Softcap", {.softcap = 0.8}}};
  for (const auto& [name, rules] : all) {
    cases.push_back(
        {std::string("attention_decode") + name,
         {x({3, 1, 4, 4}), x({3, 1, 2, 4}), x({3, 1, 2, 4}), ids({3, 1}, {0, 5, 3}), cache, cache},
         [rules](RegionBuilder& b, const Uses& in) {
           ops::attention_decode(b, in[0], in[1], in[2], {in[4], in[5]}, in[3], 0.7, rules, "y");
         },
         false});
    cases.push_back(
        {std::string("attention_decodePaged") + name,
         {x({3, 1, 4, 4}), x({3, 1, 2, 4}), x({3, 1, 2, 4}), ids({3, 1}, {5, 0, 3}), pool, pool,
          ids({3, 2}, {4, 0, -1, -1, 3, 2})},
         [rules](RegionBuilder& b, const Uses& in) {
           ops::attention_decode(b, in[0], in[1], in[2], {in[4], in[5], in[6]}, in[3], 0.7, rules, "y");
         },
         false});
  }
  for (const bool interleaved : {false, true}) {
    cases.push_back({std::string("attention_decodeRotated") + (interleaved ? "Interleaved" : ""),
                     {x({3, 1, 4, 4}), x({3, 1, 2, 4}), x({3, 1, 2, 4}), ids({3, 1}, {0, 5, 3}), cache, cache,
                      x({6, 2}), x({6, 2})},
                     [interleaved](RegionBuilder& b, const Uses& in) {
                       ops::attention_decode(b, in[0], in[1], in[2], {in[4], in[5]}, in[3], 0.7, {}, "y");
                       ir::Node& node = b.region().nodes.back();
                       node.inputs.insert(node.inputs.end(), {in[6], in[7]});
                       node.attributes["interleaved"] = interleaved;
                     },
                     false});
  }
}

void add_documents(std::vector<OpCase>& cases) {
  using Mask = ops::AttentionRules::Mask;
  const std::pair<const char*, ops::AttentionRules> all[] = {
      {"", {.documents = true}},
      {"Full", {.mask = Mask::full, .documents = true}},
      {"Window", {.mask = Mask::window, .window = 2, .documents = true}},
      {"Softcap", {.softcap = 0.8, .documents = true}},
  };
  const CaseInput documents = two_rows_of_documents();
  for (const auto& [name, rules] : all) {
    for (double dropout : {0.0, 0.3}) {
      cases.push_back(
          {std::string("attentionDocuments") + name + (dropout > 0 ? "Dropout" : ""),
           {x({2, 5, 4, 3}), x({2, 5, 2, 3}), x({2, 5, 2, 3}), word(9), word(1234), documents},
           [dropout, rules](RegionBuilder& b, const Uses& in) {
             ops::attention(b, in[0], in[1], in[2], 0.7, rules, dropout, {in[3], in[4]}, 1, "y", in[5]);
           }});
    }
  }
}

}  // namespace

void add_attention_cases(std::vector<OpCase>& cases) {
  add_attention(cases);
  add_compressed_attention(cases);
  add_attention_rules(cases);
  add_cache(cases);
  add_documents(cases);
}

}  // namespace hydrac::test
