// One written value to the C++ type of its key, or a diagnostic that says what the key takes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "diag/diagnostic.h"
#include "spec/keys/key_table.h"
#include "spec/keys/values.h"
#include "spec/reader/tree.h"

namespace hydrac::spec {

// Each returns whether `out` was set; otherwise the error has been reported.
bool convert(const Node& node, const KeyRow& key, bool& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, int64_t& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, BatchSize& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, double& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, LearningRate& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, Share& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, std::string& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, StringList& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, CoreList& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, Sources& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, NamedValues& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, Betas& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, Numbers& out, diag::Diagnostics& diagnostics);
bool convert(const Node& node, const KeyRow& key, Recompute& out, diag::Diagnostics& diagnostics);

// Sets all but the text of a file that must be read and what is lifted from it (spec/functions.h).
bool convert(const Node& node, const KeyRow& key, CppFunction& out, diag::Diagnostics& diagnostics);

// The index of the node's word among `values`, or -1.
int convert_word(const Node& node, const KeyRow& key, std::span<const EnumValue> values,
                 diag::Diagnostics& diagnostics);

template <class E>
requires std::is_enum_v<E>
bool convert(const Node& node, const KeyRow& key, E& out, diag::Diagnostics& diagnostics) {
  const int index = convert_word(node, key, enum_values(E{}), diagnostics);
  if (index >= 0) out = static_cast<E>(index);
  return index >= 0;
}

template <class E>
bool convert(const Node& node, const KeyRow& key, WordOrFunction<E>& out, diag::Diagnostics& diagnostics) {
  out = E{};
  if (node.kind != Node::Kind::map) return convert(node, key, out.word, diagnostics);
  return convert(node, key, out.function.emplace(), diagnostics);
}

// "between 1 and 64", "at least 0 and below 1": what a number of this key may be.
std::string range_text(const Rule& rule);

// The words of an enum.
std::vector<std::string> spellings(std::span<const EnumValue> values);

}  // namespace hydrac::spec
