// A job as `JOBDIR/job.json` states it. The README beside this folder documents the file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "oracle/job/graph.h"

namespace hydrac::oracle {

struct OptimizerSpec {
  std::string name;  // adamw, lion, sgd, muon
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0;  // adamw, lion, muon
  double eps = 0;               // adamw, muon
  double weight_decay = 0;
  double momentum = 0;  // sgd, muon
  // Muon's parameters, by name: the rows [first, first + count) of each matrix that one is made of. It leaves
  // the others to AdamW.
  struct Rows {
    std::int64_t first = 0, count = 0;
  };
  std::map<std::string, std::vector<Rows>> matrices;
};

struct ScheduleSpec {
  std::string name;  // constant, linear, cosine, wsd, adaptive, function
  std::int64_t warmup_steps = 0;
  std::int64_t max_steps = 0;
  std::int64_t decay_steps = 0;  // wsd: the last ones; linear and cosine: after warmup
  double min_ratio = 0;
  std::int64_t patience = 0;  // adaptive
  double threshold = 0, factor = 0;
  std::optional<Expression> function;  // of (step, max_steps)
};

// After each step, what is stored in bf16 is rounded stochastically, each element with noise of its own:
// random_16_bits(random_key(seed, step, site) + stream + t, first + slot * stride + element), where t is 0
// for the weights and 1 and 2 for the moments.
struct RoundingSpec {
  struct Place {
    std::uint32_t stream = 0;
    std::int64_t first = 0, stride = 0;
  };
  std::uint32_t site = 0;
  bool weights = false, moments = false;
  std::map<std::string, Place> places;  // of every parameter, by name
};

// After each step, the moments of these parameters are stored in 8 bits: quantize_block() (quantize.h) for
// each `block` elements of each slot, row-major, the last one shorter. The second moment has no sign.
struct QuantizedState {
  std::int64_t block = 0;
  std::set<std::string> parameters;
};

enum class Float16 { bf16, fp16 };

struct Job {
  bool float64 = true;
  bool peer_ops = false;            // verify computes with the operations and the optimizer that bench times
  std::optional<Float16> autocast;  // verify also computes under autocast to this type
  double gradient_noise = 0;  // verify also trains with gradients that are off by this share; 0: it does not
  int threads = 1;
  Graph graph;
  int steps = 1;
  int accumulation = 1;
  int bench_steps = 20;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  double max_grad_norm = 0;       // 0: no clipping
  std::set<std::string> decay;    // parameters that get weight decay
  std::vector<std::string> dump;  // values whose tensors of step 0, micro-batch 0 are wanted
  std::optional<RoundingSpec> rounding;
  std::optional<QuantizedState> quantized_state;
  std::uint32_t seed = 0;
};

// Reads and checks `path`. Throws JobError that names the member at fault; a member nobody knows is an error
// too.
Job read_job(const std::filesystem::path& path);

}  // namespace hydrac::oracle
