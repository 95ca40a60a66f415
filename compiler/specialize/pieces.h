// Declarations of the files in scope that a specialized text is made of. Includes Clang's headers: see ast.h.
#pragma once
#include "specialize/preprocessing.h"

namespace hydrac::specialize {

// A declaration's range in its file, with the comment above it.
struct Piece {
  std::size_t begin = 0, end = 0;
  std::vector<std::string> space;  // namespaces within the specialized one
  std::string comment;             // of another declaration of the same, where this one has none
  std::set<std::string> names;     // that it declares
  std::set<int> entries;           // that reach it
  bool is_shared = false;          // by all entries that reach it, as one text
};

struct Pieces {
  std::map<int, std::vector<Piece>> of_file;  // by the file's number
  struct Member {
    std::size_t end = 0;
    std::set<int> entries;  // that reach it
  };
  std::map<Place, Member> members;  // of the pieces that are classes, by where they begin
};

// Adds the pieces of `instances`, which entry number `entry` reached in one parse. With `keeps_conditionals`,
// a piece inside an #if grows to the whole conditional.
void find_pieces(const Places& places, const Instances& instances, const Preprocessing& preprocessing,
                 bool keeps_conditionals, int entry, Pieces& pieces);

}  // namespace hydrac::specialize
