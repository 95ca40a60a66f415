#include "runtime/cuda/stream.h"

#include <algorithm>
#include <utility>

#include "runtime/cuda/library.h"

namespace hydrac::runtime::cuda {
namespace {

bool ready(abi::CUresult result, const char* call) {
  if (result == abi::kCudaNotReady) return false;
  check(result, call);
  return true;
}

// Destroys the recorded graph when instantiating is done or has thrown.
struct RecordedGraph {
  abi::CUgraph graph = nullptr;
  ~RecordedGraph() {
    if (graph != nullptr) driver().cuGraphDestroy(graph);
  }
};

}  // namespace

bool follows_kernels(abi::CUstream stream) {
  int status = 0;
  abi::CUgraph graph = nullptr;
  const abi::CUgraphNode* nodes = nullptr;
  std::size_t count = 0;
  check(driver().cuStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, &nodes, &count),
        "cuStreamGetCaptureInfo");
  if (status != abi::kCaptureActive || count == 0) return false;
  return std::all_of(nodes, nodes + count, [](abi::CUgraphNode node) {
    int type = 0;
    check(driver().cuGraphNodeGetType(node, &type), "cuGraphNodeGetType");
    return type == abi::kGraphNodeKernel;
  });
}

Stream::Stream() {
  check(driver().cuStreamCreate(&stream_, abi::kStreamNonBlocking), "cuStreamCreate");
}

Stream::~Stream() {
  if (stream_ != nullptr) driver().cuStreamDestroy_v2(stream_);
}

Stream::Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(stream_, other.stream_);
  return *this;
}

void Stream::synchronize() const {
  check(driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

bool Stream::idle() const {
  return ready(driver().cuStreamQuery(stream_), "cuStreamQuery");
}

void Stream::wait(const Event& event) const {
  check(driver().cuStreamWaitEvent(stream_, event.handle(), 0), "cuStreamWaitEvent");
}

Event::Event(Use use) {
  check(driver().cuEventCreate(&event_, use == Use::timing ? abi::kEventDefault : abi::kEventDisableTiming),
        "cuEventCreate");
}

Event::~Event() {
  if (event_ != nullptr) driver().cuEventDestroy_v2(event_);
}

Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

void Event::record(const Stream& stream) const {
  check(driver().cuEventRecord(event_, stream.handle()), "cuEventRecord");
}

void Event::record_in_graph(abi::CUstream stream) const {
  check(driver().cuEventRecordWithFlags(event_, stream, abi::kEventRecordExternal), "cuEventRecordWithFlags");
}

void Event::synchronize() const {
  check(driver().cuEventSynchronize(event_), "cuEventSynchronize");
}

bool Event::done() const {
  return ready(driver().cuEventQuery(event_), "cuEventQuery");
}

double Event::ms_since(const Event& start) const {
  float ms = 0;
  check(driver().cuEventElapsedTime(&ms, start.event_, event_), "cuEventElapsedTime");
  return ms;
}

Graph Graph::capture(const Stream& stream, const std::function<void()>& record) {
  const abi::DriverApi& api = driver();
  // Thread-local: other threads may allocate and synchronize meanwhile.
  check(api.cuStreamBeginCapture_v2(stream.handle(), abi::kCaptureThreadLocal), "cuStreamBeginCapture");
  RecordedGraph recorded;
  try {
    record();
  } catch (...) {
    api.cuStreamEndCapture(stream.handle(), &recorded.graph);
    throw;
  }
  check(api.cuStreamEndCapture(stream.handle(), &recorded.graph), "cuStreamEndCapture");
  Graph graph;
  check(api.cuGraphGetNodes(recorded.graph, nullptr, &graph.nodes_), "cuGraphGetNodes");
  check(api.cuGraphInstantiateWithFlags(&graph.exec_, recorded.graph, 0), "cuGraphInstantiate");
  return graph;
}

Graph::~Graph() {
  if (exec_ != nullptr) driver().cuGraphExecDestroy(exec_);
}

Graph::Graph(Graph&& other) noexcept
    : exec_(std::exchange(other.exec_, nullptr)), nodes_(std::exchange(other.nodes_, 0)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(exec_, other.exec_);
  std::swap(nodes_, other.nodes_);
  return *this;
}

void Graph::launch(const Stream& stream) const {
  check(driver().cuGraphLaunch(exec_, stream.handle()), "cuGraphLaunch");
}

}  // namespace hydrac::runtime::cuda
