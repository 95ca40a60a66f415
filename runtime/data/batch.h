// The training loop's view of data: the micro-batches of each optimizer step, from any source.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hydrac::runtime {

inline constexpr int32_t kIgnoredTarget = -100;  // a target that no loss counts; NaN in float_targets

// How far the schedules of the data are in the step of a batch; 0 where there is none, or it has ended.
struct BatchStage {
  int64_t sequence_len = 0;     // of a warm-up (sequence_warmup.h): tokens of a sequence
  double curriculum_share = 0;  // of the training data, from which samples are drawn (curriculum.h)
};

// One micro-batch of B rows by T positions, row-major. Token models use tokens and targets; series models use
// features and one of targets (classes) and float_targets. Unused members are empty.
struct Batch {
  std::vector<int32_t> tokens;   // [B, T]
  std::vector<int32_t> targets;  // [B, T] next token or class; kIgnoredTarget where ignored
  // Boundaries of documents, if sequences are split into them: the first token of each token's document in
  // its row, and the one behind the last; and the token's position in it.
  std::vector<int32_t> documents;    // [B, T, 2]
  std::vector<int32_t> positions;    // [B, T]
  std::vector<float> features;       // [B, T, F]
  std::vector<float> float_targets;  // [B, T, O]; NaN where ignored
  // For programs with an objective (docs/objectives.md): the weight of each target's loss in training, and
  // the reply that each token belongs to, -1: none. Empty: all 1, all -1.
  std::vector<float> weights;     // [B, T]
  std::vector<int32_t> segments;  // [B, T]
  // For programs that learn from pairs of texts (docs/preferences.md), P a row: the number of each in the
  // data, or -1, and the reference's log-probabilities of its texts. Segments are then those of targets: 2p
  // in the chosen text of a row's pair p, 2p + 1 in its rejected one. Empty references: all 0.
  std::vector<int64_t> pairs;                               // [B, P]
  std::vector<float> chosen_reference, rejected_reference;  // [B, P]
  BatchStage stage;
  int64_t target_count = 0;  // targets, or single values of float_targets, that are not ignored
  int64_t pair_count = 0;

  // How many numbers the loss is a mean of: pairs where there are some, else targets.
  int64_t loss_terms() const { return pair_count > 0 ? pair_count : target_count; }
};

// Validation batches [first, first + batches) of a loader.
struct EvalSet {
  std::string name;  // "": there is one set
  int64_t first = 0, batches = 0;
};

// The part of the training that a source of a mixture has had.
struct SourceUse {
  std::string name;
  int64_t tokens = 0;
  double epochs = 0;
};

// Random access to batches; what a sample is depends only on (dataset, seed, sample number). Const and
// thread-safe.
class BatchLoader {
 public:
  virtual ~BatchLoader() = default;
  // Training samples [first_sample, first_sample + B) in the shuffled, endless order of epochs.
  virtual void fill_train(int64_t first_sample, Batch& out) const = 0;
  // Validation batch `index` of eval_batches(), in file order. Together they count every validation target
  // once; rows that a last batch does not need are ignored targets.
  virtual void fill_eval(int64_t index, Batch& out) const = 0;
  virtual int64_t eval_batches() const = 0;  // 0 without validation data
  // The sets that these batches are of.
  virtual std::vector<EvalSet> eval_sets() const { return {{"", 0, eval_batches()}}; }
  virtual int64_t samples_per_epoch() const = 0;
  virtual int64_t most_samples() const { return int64_t{1} << 62; }  // that there are
  // Use of each source by the first `samples` training samples; empty without a mixture.
  virtual std::vector<SourceUse> uses(int64_t) const { return {}; }
  virtual int64_t batch_size() const = 0;  // B
};

// The training batches in order, prepared one step ahead by a thread of its own. Its whole state is the
// sample number.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // All micro-batches of the next optimizer step; valid until the next call of a member. Rethrows what
  // preparing threw.
  virtual const std::vector<Batch>& next() = 0;
  // The next call of next() returns step `step`, counted from 0. A new source stands at 0.
  virtual void seek(int64_t step) = 0;
  // Samples that the calls of next() since the start of training stand for: what a checkpoint stores.
  virtual int64_t samples_seen() const = 0;
  // As seek(), for a run whose batch sizes changed.
  virtual void seek_samples(int64_t samples) = 0;
};

// `micro_batches` of loader->batch_size() rows a step. With `prefetch` a thread prepares the next step
// meanwhile.
std::unique_ptr<BatchSource> make_batch_source(std::shared_ptr<const BatchLoader> loader,
                                               int64_t micro_batches, bool prefetch = true);

}  // namespace hydrac::runtime
