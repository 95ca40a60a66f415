// Slurm's short forms of lists, as its environment variables have them.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hydrac::runtime {

// "node007" of "node[007-009,12],login": the first name. Empty where there is none.
std::string first_slurm_host(std::string_view list);

// The number at index `index`, from 0, of "2(x3),1", which means 2, 2, 2, 1. nullopt: the index is too large,
// or it is no such list.
std::optional<int> slurm_count(std::string_view list, int index);

}  // namespace hydrac::runtime
