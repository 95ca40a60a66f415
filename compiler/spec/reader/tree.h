// A spec as written: maps, lists and scalars with their places, before anything is known about keys.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.h"

namespace hydrac::spec {

struct Entry;

struct Node {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  diag::Location where;
  std::string text;            // of a scalar
  bool quoted = false;         // a scalar that is text whatever it looks like
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map, in the order written, keys distinct

  Entry* find(std::string_view key);
  const Entry* find(std::string_view key) const;

  // Sets `key`, replacing an entry of that name.
  void set(Entry entry);
  void erase(std::string_view key);
};

struct Entry {
  std::string key;
  diag::Location where;  // of the key
  Node value;
};

// `value` under the keys of the dotted `path`, whose first byte stands at `where`: a map of maps.
Node nested(std::string_view path, diag::Location where, Node value);

// Lays `over` onto `base`: maps merge key by key, everything else replaces.
void overlay(Node& base, Node over);

}  // namespace hydrac::spec
