// A job for hydrac-oracle (oracle/README.md): the forward graph of a spec and the tensors it starts from.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "targets/executable/executable.h"
#include "verify/batches.h"

namespace hydrac::verify {

// One slot of a parameter, or of its gradient `id`, without the rows that padding appended.
std::vector<float> read_unpadded(targets::Executable& program, ir::ValueId id, const ir::Value& parameter,
                                 int slot);

// Writes job.json and tensors.safetensors: `program`'s parameters as they are now, and the batches.
// With the second run that yardstick_of() says for the program's spec.
void write_verify_job(const std::filesystem::path& dir, targets::Executable& program, const Batches& batches);

// The same graph to be timed; the oracle draws its own data.
void write_bench_job(const std::filesystem::path& dir, const spec::Spec& spec, int threads, int64_t steps);

}  // namespace hydrac::verify
