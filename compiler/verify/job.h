// A job for hydrac-oracle (oracle/README.md): the forward graph of a spec and the tensors it starts from.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "targets/executable/executable.h"
#include "verify/batches.h"

namespace hydrac::verify {

// One slot of a parameter, or of its gradient `id`, without the rows that padding appended.
std::vector<float> read_unpadded(targets::Executable& program, ir::ValueId id, const ir::Value& parameter,
                                 int slot);

// Routers' choices among each micro-batch's tokens, by the name that the oracle's input has; empty without
// any.
using Choices = std::map<std::string, std::vector<int32_t>>;

// Writes job.json and tensors.safetensors: `program`'s current parameters, the batches, and the routers'
// choices. Includes the second run that yardstick_of() asks for.
void write_verify_job(const std::filesystem::path& dir, targets::Executable& program, const Batches& batches,
                      const Choices& choices);

// The same graph to be timed; the oracle draws its own data.
void write_bench_job(const std::filesystem::path& dir, const spec::Spec& spec, int threads, int64_t steps);

}  // namespace hydrac::verify
