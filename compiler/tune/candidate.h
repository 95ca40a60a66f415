// The search's space, and one choice of it.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/passes.h"
#include "spec/spec.h"
#include "tune/lock_file.h"

namespace hydrac::tune {

enum class Effort { quick, normal, max };

// The library for matmuls on cpu is no key of a spec: it is recorded among the choices.
inline constexpr const char* kBlas = "blas";

// Algorithms of library calls are no keys of a spec either. Their name is this prefix, the section of
// RecordedChoices, and the key there: "algorithm cublaslt 512x768x3072 bf16*bf16->f32".
inline constexpr std::string_view kAlgorithm = "algorithm ";

struct Algorithm {
  std::string section, key;
};
std::string key_of(const Algorithm& algorithm);
std::optional<Algorithm> algorithm_of(const std::string& key);

// The implementation of a matmul, or of several weight gradients together, is no key either: "matmul
// d_mlp.up.weight d_mlp.down.weight" has one of these values. In a spec they are two lists of names.
inline constexpr std::string_view kMatmul = "matmul ";
inline constexpr const char *kOurs = "ours", *kLibrarys = "the library's";

// Values by key, as YAML; what is not in it is as the spec says.
struct Candidate {
  std::map<std::string, std::string> values;

  Candidate with(const std::string& key, const std::string& value) const;
  std::vector<LockedKey> keys() const;       // of the spec
  runtime::RecordedChoices choices() const;  // the library for matmuls
  std::string text() const;  // "threads 2, loss fused_linear, other algorithms of 3 matmuls"; "the defaults"
  bool operator==(const Candidate&) const = default;
};

// A key and its other values that compute the same as the spec's own value.
struct Knob {
  std::string key;
  std::vector<std::string> values;
};

// This machine's equipment beside the target.
struct Equipment {
  int cores = 1;
  std::vector<std::string> blas;  // libraries that are installed: "onednn", "openblas"
};

// Parts of the program of the defaults.
struct Parts {
  passes::MatmulChoices matmuls;
  double attention_share = 0;  // of a step's predicted time
};
// Attention's tiles are tried where it has a larger share than this.
inline constexpr double kShareForTiles = 0.05;

// Keys that the spec leaves open: not written, or `auto`. The keys that gained most on measured specs come
// first, because candidates with equal estimates are tried in this order. `spec`: complete, with defaults
// filled in; `open_batch`: its micro-batch was `auto` before.
std::vector<Knob> knobs_of(const spec::Spec& spec, bool open_batch, const Equipment& equipment, Effort effort,
                           const Parts& parts = {});

// Changes that round differently and are faster or smaller, each by itself. Empty on cpu, and unless
// tune.numerics asks for them.
std::vector<Candidate> numerics_of(const spec::Spec& spec);

}  // namespace hydrac::tune
