#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "runtime/data/batch.h"

namespace hydrac::runtime {

namespace {

// One optimizer step's micro-batches, beginning with sample `first`.
void fill_step(const BatchLoader& loader, int64_t first, std::vector<Batch>& step) {
  for (Batch& batch : step) {
    loader.fill_train(first, batch);
    first += loader.batch_size();
  }
}

class DirectSource final : public BatchSource {
 public:
  DirectSource(std::shared_ptr<const BatchLoader> loader, int64_t micro_batches)
      : loader_(std::move(loader)), step_(static_cast<size_t>(micro_batches)) {}

  const std::vector<Batch>& next() override {
    fill_step(*loader_, sample_, step_);
    sample_ += samples_per_step();
    return step_;
  }
  void seek(int64_t step) override { sample_ = step * samples_per_step(); }
  int64_t samples_seen() const override { return sample_; }
  void seek_samples(int64_t samples) override { sample_ = samples; }

 private:
  int64_t samples_per_step() const { return static_cast<int64_t>(step_.size()) * loader_->batch_size(); }

  std::shared_ptr<const BatchLoader> loader_;
  std::vector<Batch> step_;
  int64_t sample_ = 0;  // the first of the next step
};

// The worker fills `ahead_` while the caller reads `current_`. It writes `ahead_` without the lock, but only
// between clearing and setting `ready_`; the caller swaps the two only while `ready_` is set.
class PrefetchSource final : public BatchSource {
 public:
  PrefetchSource(std::shared_ptr<const BatchLoader> loader, int64_t micro_batches)
      : loader_(std::move(loader)),
        current_(static_cast<size_t>(micro_batches)),
        ahead_(static_cast<size_t>(micro_batches)),
        worker_([this] { work(); }) {}

  ~PrefetchSource() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  const std::vector<Batch>& next() override {
    std::unique_lock lock(mutex_);
    wanted_ = sample_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return ready_ == sample_; });
    ready_ = kNone;
    if (error_) {  // the position stays, so that a next call tries again
      wanted_ = kNone;
      std::rethrow_exception(std::exchange(error_, nullptr));
    }
    std::swap(current_, ahead_);
    sample_ += samples_per_step();
    wanted_ = sample_;
    changed_.notify_all();
    return current_;
  }
  void seek(int64_t step) override { seek_samples(step * samples_per_step()); }
  int64_t samples_seen() const override { return sample_; }
  void seek_samples(int64_t samples) override {
    const std::lock_guard lock(mutex_);
    sample_ = samples;
    wanted_ = samples;
    changed_.notify_all();
  }

 private:
  static constexpr int64_t kNone = -1;

  int64_t samples_per_step() const { return static_cast<int64_t>(current_.size()) * loader_->batch_size(); }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || (wanted_ != kNone && wanted_ != ready_); });
      if (stop_) return;
      const int64_t first = wanted_;
      ready_ = kNone;
      lock.unlock();
      std::exception_ptr error;
      try {
        fill_step(*loader_, first, ahead_);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = error;
      ready_ = first;
      changed_.notify_all();
    }
  }

  std::shared_ptr<const BatchLoader> loader_;
  std::vector<Batch> current_;
  std::vector<Batch> ahead_;
  int64_t sample_ = 0;  // the first of the next step; the caller's
  std::mutex mutex_;    // guards what follows
  std::condition_variable changed_;
  int64_t wanted_ = 0;        // first sample of the step to prepare; kNone: nothing
  int64_t ready_ = kNone;     // first sample of the step in ahead_; kNone: not filled
  std::exception_ptr error_;  // what filling ahead_ threw
  bool stop_ = false;
  std::thread worker_;  // last: it uses all the others
};

}  // namespace

std::unique_ptr<BatchSource> make_batch_source(std::shared_ptr<const BatchLoader> loader,
                                               int64_t micro_batches, bool prefetch) {
  if (micro_batches < 1) throw std::invalid_argument("make_batch_source: no micro-batches");
  if (prefetch) return std::make_unique<PrefetchSource>(std::move(loader), micro_batches);
  return std::make_unique<DirectSource>(std::move(loader), micro_batches);
}

}  // namespace hydrac::runtime
