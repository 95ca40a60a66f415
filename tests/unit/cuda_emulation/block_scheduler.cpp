#include "block_scheduler.h"

#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace hydrac::emulation {

namespace {

constexpr unsigned char kPoison = 0xFF;  // NaN in every floating-point type, -1 as an integer
constexpr unsigned kMostThreads = 1024;
constexpr int kNamedBarriers = 16;

BlockScheduler* active = nullptr;  // the one whose launch runs

bool same_place(const Site& a, const Site& b) {
  const auto same = [](const char* x, const char* y) { return x == y || std::strcmp(x, y) == 0; };
  return a.line == b.line && same(a.intrinsic, b.intrinsic) && same(a.file, b.file);
}

// The calling thread's TLS block of the module that holds `address`.
struct TlsSegment {
  const unsigned char* address;
  unsigned char* begin = nullptr;
  std::size_t bytes = 0;
};

int find_tls_segment(dl_phdr_info* module, std::size_t, void* result) {
  auto* wanted = static_cast<TlsSegment*>(result);
  auto* begin = static_cast<unsigned char*>(module->dlpi_tls_data);
  if (!begin) return 0;
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const auto& header = module->dlpi_phdr[i];
    if (header.p_type != PT_TLS || wanted->address < begin || wanted->address >= begin + header.p_memsz)
      continue;
    wanted->begin = begin;
    wanted->bytes = header.p_memsz;
    return 1;
  }
  return 0;
}

std::string text(uint3 at) {
  return fmt::format("({},{},{})", at.x, at.y, at.z);
}

}  // namespace

void BlockScheduler::launch(const std::string& what, const Library& library, const Kernel& kernel,
                            const Geometry& geometry, void* const* arguments, Order order) {
  const uint3 grid = geometry.grid, block = geometry.block;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMostThreads || block.z > 64)
    throw EmulationError(fmt::format("{}: a block of {} threads cannot be launched", what, text(block)));
  if (grid.x == 0 || grid.x > 0x7FFFFFFFu || grid.y == 0 || grid.y > 65535 || grid.z == 0 || grid.z > 65535)
    throw EmulationError(fmt::format("{}: a grid of {} blocks cannot be launched", what, text(grid)));
  if (geometry.shared_bytes > kMostSharedBytes)
    throw EmulationError(fmt::format("{}: {} bytes of dynamic shared memory, of at most {}", what,
                                     geometry.shared_bytes, kMostSharedBytes));
  what_ = what;
  kernel_ = &kernel;
  arguments_ = arguments;
  order_ = order;
  shared_bytes_ = geometry.shared_bytes;
  dynamic_shared_ = library.dynamic_shared();
  TlsSegment tls{dynamic_shared_};
  if (::dl_iterate_phdr(find_tls_segment, &tls) == 0) throw EmulationError(what + ": no shared memory found");
  shared_begin_ = tls.begin;
  shared_end_ = tls.begin + tls.bytes;
  failure_.clear();

  state_ = library.state;
  state_->grid_size = grid;
  state_->block_size = block;
  state_->barrier = wait_barrier;
  state_->named_barrier = wait_named_barrier;
  state_->exchange = wait_exchange;
  state_->yield = yield;
  state_->copy_later = copy_later;
  state_->commit_copies = commit_copies;
  state_->wait_copies = wait_copies;
  state_->wait_copies_before = wait_copies_before;
  state_->fail = fail;
  thread_count_ = static_cast<unsigned>(threads);
  prepare_threads();

  active = this;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t b = order == Order::ascending ? i : blocks - 1 - i;
    state_->block = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                     static_cast<unsigned>(b / grid.x / grid.y)};
    run_block();
  }
}

void BlockScheduler::prepare_threads() {
  const uint3 size = state_->block_size;
  while (threads_.size() < thread_count_) threads_.push_back(std::make_unique<Thread>());
  warps_.resize((thread_count_ + kWarp - 1) / kWarp);
  for (unsigned i = 0; i < thread_count_; ++i)
    threads_[i]->index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
}

void BlockScheduler::poison_shared_memory() {
  std::fill(shared_begin_, dynamic_shared_ + shared_bytes_ + kGuardBytes, kPoison);
  std::fill(dynamic_shared_ + kMostSharedBytes + kGuardBytes, shared_end_, kPoison);
}

void BlockScheduler::check_shared_memory() const {
  const unsigned char* end = dynamic_shared_ + shared_bytes_;
  const auto* written = std::find_if(end, end + kGuardBytes, [](unsigned char c) { return c != kPoison; });
  if (written != end + kGuardBytes)
    stop(fmt::format("writes byte {} of the {} bytes of its dynamic shared memory", written - dynamic_shared_,
                     shared_bytes_));
}

void BlockScheduler::run_block() {
  poison_shared_memory();
  vain_looks_ = 0;
  for (unsigned i = 0; i < thread_count_; ++i) {
    threads_[i]->waits = Waits::no;
    threads_[i]->copies.clear();
    threads_[i]->groups = 0;
    threads_[i]->fiber.start(run_thread, this);
  }
  const unsigned warps = static_cast<unsigned>(warps_.size());
  do {
    for (unsigned i = 0; i < warps; ++i) {
      const unsigned warp = order_ == Order::ascending ? i : warps - 1 - i;
      while (run_warp(warp) && finish_exchanges(warp)) {
      }
    }
  } while (finish_named_barriers() || look_again() || finish_barrier());
  check_shared_memory();
}

// Runs every lane that can run. False if there was none.
bool BlockScheduler::run_warp(unsigned warp) {
  const unsigned first = warp * kWarp, lanes = std::min<unsigned>(kWarp, thread_count_ - first);
  bool any = false;
  for (unsigned i = 0; i < lanes; ++i) {
    const unsigned thread = first + (order_ == Order::ascending ? i : lanes - 1 - i);
    if (threads_[thread]->waits != Waits::no) continue;
    resume(thread);
    any = true;
  }
  return any;
}

bool BlockScheduler::meets(const Thread& thread, unsigned first, unsigned lane) const {
  if (first + lane >= thread_count_) return false;
  const Thread& peer = *threads_[first + lane];
  return peer.waits == Waits::exchange && peer.mask == thread.mask && same_place(peer.site, thread.site);
}

// Lets those lanes go on whose exchange is complete: every lane of its mask waits in it. True if some do.
bool BlockScheduler::finish_exchanges(unsigned warp) {
  const unsigned first = warp * kWarp, lanes = std::min<unsigned>(kWarp, thread_count_ - first);
  bool waiting = false, released = false, looking = false;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const Thread& thread = *threads_[first + lane];
    looking |= thread.waits == Waits::change;
    if (thread.waits != Waits::exchange) continue;
    waiting = true;
    const unsigned mask = thread.mask;
    bool complete = true;
    for (unsigned other = 0; other < kWarp && complete; ++other)
      complete = !(mask >> other & 1u) || meets(thread, first, other);
    if (!complete) continue;
    for (unsigned other = lane; other < lanes; ++other) {
      if (!(mask >> other & 1u)) continue;
      warps_[warp].exchanged[other] = threads_[first + other]->value;
      threads_[first + other]->waits = Waits::no;
    }
    released = true;
  }
  if (waiting && !released && !looking) refuse_exchange(warp);
  return released;
}

// Lets those threads go on whose named barrier is complete. True if some do.
bool BlockScheduler::finish_named_barriers() {
  unsigned waiting[kNamedBarriers] = {};
  for (unsigned i = 0; i < thread_count_; ++i) {
    if (threads_[i]->waits == Waits::named_barrier) ++waiting[threads_[i]->barrier];
  }
  const auto complete = [&](const Thread& thread) {
    return thread.waits == Waits::named_barrier && waiting[thread.barrier] == thread.expected;
  };
  bool released = false;
  for (unsigned i = 0; i < thread_count_; ++i) {
    const Thread& thread = *threads_[i];
    if (thread.waits == Waits::named_barrier && waiting[thread.barrier] > thread.expected)
      stop(fmt::format("{} {}", thread_name(i), where(i)));
    released |= complete(thread);
  }
  for (unsigned i = 0; i < thread_count_; ++i) {
    if (complete(*threads_[i])) threads_[i]->waits = Waits::no;
  }
  return released;
}

// Lets threads go on that wait for memory to change. True if there are some.
bool BlockScheduler::look_again() {
  constexpr int kMostLooks = 1 << 20;
  unsigned looking = thread_count_;
  for (unsigned i = 0; i < thread_count_; ++i) {
    if (threads_[i]->waits != Waits::change) continue;
    threads_[i]->waits = Waits::no;
    looking = i;
  }
  if (looking == thread_count_) return false;
  if (++vain_looks_ > kMostLooks)
    stop(fmt::format("{} waits at {}, and nothing changes", thread_name(looking),
                     place(threads_[looking]->site)));
  return true;
}

// False when every thread has returned.
bool BlockScheduler::finish_barrier() {
  unsigned waiting = thread_count_, missing = thread_count_;  // one thread of each kind
  passed_ = 0;
  for (unsigned i = 0; i < thread_count_; ++i) {
    if (threads_[i]->waits == Waits::returned) {
      if (missing == thread_count_) missing = i;
      continue;
    }
    if (waiting == thread_count_) waiting = i;
    passed_ += threads_[i]->predicate != 0;
  }
  if (waiting == thread_count_) return false;
  vain_looks_ = 0;
  for (unsigned i = 0; i < thread_count_; ++i) {
    if (threads_[i]->waits == Waits::named_barrier) stop(fmt::format("{} {}", thread_name(i), where(i)));
  }
  for (unsigned i = 0; i < thread_count_; ++i) {
    if (missing == thread_count_ && !same_place(threads_[i]->site, threads_[waiting]->site)) missing = i;
  }
  if (missing != thread_count_)
    stop(fmt::format("{} {}, {} {}", thread_name(waiting), where(waiting), thread_name(missing),
                     where(missing)));
  for (unsigned i = 0; i < thread_count_; ++i) threads_[i]->waits = Waits::no;
  return true;
}

void BlockScheduler::resume(unsigned thread) {
  current_ = thread;
  state_->thread = threads_[thread]->index;
  threads_[thread]->fiber.resume();
  if (!failure_.empty()) stop(failure_);
}

// Messages.

void BlockScheduler::refuse_exchange(unsigned warp) const {
  const unsigned first = warp * kWarp;
  for (unsigned lane = first; lane < thread_count_; ++lane) {
    const Thread& thread = *threads_[lane];
    if (thread.waits != Waits::exchange) continue;
    for (unsigned other = 0; other < kWarp; ++other) {
      if (!(thread.mask >> other & 1u) || meets(thread, first, other)) continue;
      const std::string found = fmt::format("{} {} for lane {}", thread_name(lane), where(lane), other);
      if (first + other >= thread_count_) stop(found + ", which the block does not have");
      stop(fmt::format("{}, {} {}", found, thread_name(first + other), where(first + other)));
    }
  }
}

std::string BlockScheduler::thread_name(unsigned thread) const {
  return "thread " + text(threads_[thread]->index);
}

std::string BlockScheduler::place(const Site& site) const {
  if (!site.file) return site.intrinsic;
  return fmt::format("{} ({}:{})", site.intrinsic, std::filesystem::path(site.file).filename().string(),
                     site.line);
}

// What a thread that does not run does instead.
std::string BlockScheduler::where(unsigned thread) const {
  const Thread& at = *threads_[thread];
  if (at.waits == Waits::returned) return "has returned";
  if (at.waits == Waits::change) return "waits at " + place(at.site);
  if (at.waits == Waits::barrier) return "waits at " + place(at.site);
  const auto at_barrier = [&](const auto& other) {
    return other->waits == Waits::named_barrier && other->barrier == at.barrier;
  };
  if (at.waits == Waits::named_barrier)
    return fmt::format("waits at {} for {} threads at barrier {}, where {} are", place(at.site), at.expected,
                       at.barrier,
                       std::count_if(threads_.begin(), threads_.begin() + thread_count_, at_barrier));
  return fmt::format("waits at {} with mask {:#010x}", place(at.site), at.mask);
}

void BlockScheduler::stop(const std::string& message) const {
  throw EmulationError(fmt::format("{}, block {}: {}", what_, text(state_->block), message));
}

// What runs on the fibers.

void BlockScheduler::run_thread(void* self) {
  auto* scheduler = static_cast<BlockScheduler*>(self);
  scheduler->kernel_->call(scheduler->arguments_);
  Thread& thread = *scheduler->threads_[scheduler->current_];
  thread.waits = Waits::returned;
  thread.fiber.suspend(true);
}

int BlockScheduler::wait_barrier(int predicate, Site site) {
  Thread& thread = *active->threads_[active->current_];
  thread.waits = Waits::barrier;
  thread.predicate = predicate;
  thread.site = site;
  thread.fiber.suspend();
  return active->passed_;
}

void BlockScheduler::wait_named_barrier(int name, int threads, Site site) {
  if (name < 1 || name >= kNamedBarriers) fail("names a barrier outside 1 to 15", site);
  if (threads < kWarp || threads % kWarp != 0) fail("waits for threads that are no whole warps", site);
  Thread& thread = *active->threads_[active->current_];
  thread.waits = Waits::named_barrier;
  thread.barrier = name;
  thread.expected = static_cast<unsigned>(threads);
  thread.site = site;
  thread.fiber.suspend();
}

void BlockScheduler::yield(Site site) {
  Thread& thread = *active->threads_[active->current_];
  thread.waits = Waits::change;
  thread.site = site;
  thread.fiber.suspend();
}

const std::uint64_t* BlockScheduler::wait_exchange(unsigned mask, std::uint64_t value, Site site) {
  const unsigned lane = active->current_ % kWarp, warp = active->current_ / kWarp;
  if (!(mask >> lane & 1u)) fail("is not in the mask that it passes", site);
  Thread& thread = *active->threads_[active->current_];
  thread.waits = Waits::exchange;
  thread.mask = mask;
  thread.value = value;
  thread.site = site;
  thread.fiber.suspend();
  return active->warps_[warp].exchanged;
}

void BlockScheduler::copy_later(void* to, const void* from, std::size_t bytes) {
  Thread& thread = *active->threads_[active->current_];
  thread.copies.push_back({to, from, bytes, thread.groups});
}

void BlockScheduler::commit_copies() {
  ++active->threads_[active->current_]->groups;
}

void BlockScheduler::wait_copies() {
  finish_copies(active->threads_[active->current_]->groups + 1);
}

void BlockScheduler::wait_copies_before(int later) {
  finish_copies(active->threads_[active->current_]->groups - later);
}

// Makes the copies of the thread's first `groups` groups.
void BlockScheduler::finish_copies(int groups) {
  std::deque<Copy>& copies = active->threads_[active->current_]->copies;
  for (; !copies.empty() && copies.front().group < groups; copies.pop_front())
    std::memcpy(copies.front().to, copies.front().from, copies.front().bytes);
}

void BlockScheduler::fail(const char* what, Site site) {
  active->failure_ =
      fmt::format("{} {} at {}", active->thread_name(active->current_), what, active->place(site));
  active->threads_[active->current_]->fiber.suspend(true);
  std::abort();  // nobody resumes it
}

}  // namespace hydrac::emulation
