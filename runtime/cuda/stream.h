// Streams, events and graphs: the order of work on the GPU.
#pragma once
#include <cstddef>
#include <functional>

#include "runtime/cuda/abi/driver.h"

namespace hydrac::runtime::cuda {

class Event;

// True if a graph is being captured from `stream` and the next work depends on kernels only. Only then a
// kernel that waits for its predecessors itself may launch early: copies and fills have no such wait.
bool follows_kernels(abi::CUstream stream);

// A queue of work; runs beside other streams and beside the default stream (non-blocking).
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;

  // Returns when everything queued is done. Throws RunError when something in it failed.
  void synchronize() const;
  // True if everything queued is done.
  bool idle() const;
  // Work queued from now on starts only after `event`. During a capture this is how branches fork and join:
  // the captured stream records an event and the other stream waits for it; at the end the other way round.
  void wait(const Event& event) const;

  abi::CUstream handle() const { return stream_; }

 private:
  abi::CUstream stream_ = nullptr;
};

// A point in a stream.
class Event {
 public:
  enum class Use { order, timing };  // events without timing are cheaper
  explicit Event(Use use = Use::order);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  void record(const Stream& stream) const;
  // While a graph is captured: each launch of it will record the event anew, at this place.
  void record_in_graph(abi::CUstream stream) const;
  void synchronize() const;
  bool done() const;
  // Milliseconds from `start` to this event; both recorded with Use::timing and done.
  double ms_since(const Event& start) const;

  abi::CUevent handle() const { return event_; }

 private:
  abi::CUevent event_ = nullptr;
};

// Work recorded once and launched as a whole any number of times.
class Graph {
 public:
  Graph() = default;
  // Calls `record`, which enqueues work on `stream` (and on streams that fork from it and join it by events),
  // and makes a graph of it; nothing runs yet. Throws what `record` throws; RunError if something cannot be
  // captured, such as a synchronization or an allocation.
  static Graph capture(const Stream& stream, const std::function<void()>& record);
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  void launch(const Stream& stream) const;
  // Kernels, copies and fills in it (0 for an empty graph).
  std::size_t nodes() const { return nodes_; }

 private:
  abi::CUgraphExec exec_ = nullptr;
  std::size_t nodes_ = 0;
};

}  // namespace hydrac::runtime::cuda
