// Work on many items by several threads, with results in the items' order, so that they do not depend on the
// number of threads.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace hydrac::prepare {

// Calls consume(i, work(i)) for i = 0, 1, ..., count - 1. `consume` runs in this order on the calling thread;
// `work` runs ahead on `threads` others, at most four items a thread. An exception of work(i) is thrown when
// its result would be consumed, so the first one in order wins.
template <class Result>
void for_each_in_order(size_t count, int threads, const std::function<Result(size_t)>& work,
                       const std::function<void(size_t, Result&&)>& consume) {
  if (threads < 2 || count < 2) {
    for (size_t i = 0; i < count; ++i) consume(i, work(i));
    return;
  }
  struct Done {
    std::optional<Result> result;
    std::exception_ptr error;
  };
  const size_t ahead = 4 * static_cast<size_t>(threads);
  std::mutex mutex;
  std::condition_variable room, ready;
  std::map<size_t, Done> done;
  size_t next = 0, consumed = 0;
  bool stopped = false;

  const auto run = [&] {
    for (std::unique_lock lock(mutex);;) {
      room.wait(lock, [&] { return stopped || next >= count || next < consumed + ahead; });
      if (stopped || next >= count) return;
      const size_t mine = next++;
      lock.unlock();
      Done outcome;
      try {
        outcome.result.emplace(work(mine));
      } catch (...) {
        outcome.error = std::current_exception();
      }
      lock.lock();
      done.emplace(mine, std::move(outcome));
      ready.notify_one();
    }
  };
  // Joins whatever happens in consume().
  struct Workers {
    std::vector<std::thread> threads;
    std::function<void()> stop;
    ~Workers() {
      stop();
      for (std::thread& thread : threads) thread.join();
    }
  } workers{{}, [&] {
              const std::lock_guard lock(mutex);
              stopped = true;
              room.notify_all();
            }};
  const size_t started = std::min(static_cast<size_t>(threads), count);
  for (size_t i = 0; i < started; ++i) workers.threads.emplace_back(run);

  for (size_t i = 0; i < count; ++i) {
    std::unique_lock lock(mutex);
    ready.wait(lock, [&] { return done.contains(i); });
    Done outcome = std::move(done.extract(i).mapped());
    ++consumed;
    room.notify_all();
    lock.unlock();
    if (outcome.error) std::rethrow_exception(outcome.error);
    consume(i, std::move(*outcome.result));
  }
}

}  // namespace hydrac::prepare
