#include "spec/reader/tree.h"

#include <algorithm>
#include <utility>

namespace hydrac::spec {

const Entry* Node::find(std::string_view key) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

Entry* Node::find(std::string_view key) {
  return const_cast<Entry*>(std::as_const(*this).find(key));
}

void Node::set(Entry entry) {
  if (Entry* old = find(entry.key))
    *old = std::move(entry);
  else
    entries.push_back(std::move(entry));
}

void Node::erase(std::string_view key) {
  std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; });
}

Node nested(std::string_view path, diag::Location where, Node value) {
  const size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  Node inner = std::move(value);
  if (dot != std::string_view::npos) {
    diag::Location next = where;
    next.col += static_cast<int>(dot) + 1;
    inner = nested(path.substr(dot + 1), next, std::move(inner));
  }
  Node map{.kind = Node::Kind::map, .where = where};
  map.entries.push_back({key, where, std::move(inner)});
  return map;
}

void overlay(Node& base, Node over) {
  if (base.kind != Node::Kind::map || over.kind != Node::Kind::map) {
    base = std::move(over);
    return;
  }
  for (Entry& entry : over.entries) {
    if (Entry* old = base.find(entry.key)) {
      old->where = entry.where;
      overlay(old->value, std::move(entry.value));
    } else {
      base.entries.push_back(std::move(entry));
    }
  }
}

}  // namespace hydrac::spec
