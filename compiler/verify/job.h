// A job for hydrac-oracle (oracle/README.md): the forward graph of a spec and the tensors it starts from.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/batch.h"
#include "targets/executable/executable.h"

namespace hydrac::verify {

// micro_batches[s][m]: micro-batch m of optimizer step s, random: tokens, targets of which some are ignored,
// features.
using Batches = std::vector<std::vector<runtime::Batch>>;
Batches random_batches(const spec::Spec& spec, int64_t steps, uint64_t seed);

// 1 / targets that count in all micro-batches of one step, as the training loop passes it.
float inverse_count(const std::vector<runtime::Batch>& step);

// One slot of a parameter, or of its gradient `id`, without the rows that padding appended.
std::vector<float> read_unpadded(targets::Executable& program, ir::ValueId id, const ir::Value& parameter,
                                 int slot);

// Writes job.json and tensors.safetensors: `program`'s parameters as they are now, and the batches.
// With the second run that yardstick_of() says for the program's spec.
void write_verify_job(const std::filesystem::path& dir, targets::Executable& program, const Batches& batches);

// The same graph to be timed; the oracle draws its own data.
void write_bench_job(const std::filesystem::path& dir, const spec::Spec& spec, int threads, int64_t steps);

}  // namespace hydrac::verify
