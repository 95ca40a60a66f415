// What the ranks of a group do together. Ranks, NcclCommunicator and CopyCommunicator each carry it out.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/parallel/rank_group.h"

namespace hydrac::runtime {

enum class Reduction { sum, max };

struct Collective {
  enum Kind {
#define HYDRAC_COLLECTIVE(word, from) word,
#include "runtime/parallel/collectives.def"
  };
  Kind kind;
  RankGroup group = RankGroup::data;
  Reduction reduction = Reduction::sum;

  // Whether a rank's `from` is its part of a tensor.
  bool reads_parts() const {
    enum { whole, part };
    static constexpr bool kReadsParts[] = {
#define HYDRAC_COLLECTIVE(word, from) from == part,
#include "runtime/parallel/collectives.def"
    };
    return kReadsParts[kind];
  }
  bool has_slots() const {
    return kind == to_owners || kind == from_owners;
  }
};

// "all_gather"
inline std::string_view to_string(Collective::Kind kind) {
  static constexpr const char* kNames[] = {
#define HYDRAC_COLLECTIVE(word, from) #word,
#include "runtime/parallel/collectives.def"
  };
  return kNames[kind];
}

inline std::optional<Collective::Kind> collective_named(std::string_view name) {
#define HYDRAC_COLLECTIVE(word, from) \
  if (name == #word) return Collective::word;
#include "runtime/parallel/collectives.def"
  return std::nullopt;
}

// A tensor of a collective in this process's memory, dense. `count`: elements of a rank's part of a slot; of
// an all_reduce all elements.
struct SharedFloats {
  const float* from = nullptr;
  float* to = nullptr;
  std::int64_t count = 0;
  std::int64_t slots = 1;
};

}  // namespace hydrac::runtime
