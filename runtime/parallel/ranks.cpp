#include "runtime/parallel/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "runtime/error.h"
#include "runtime/log/monotonic.h"

namespace hydrac::runtime {

namespace {

using Kind = RankMessage::Kind;

constexpr double kKnocking = 60;    // seconds that rank 0 of a launcher may take to come
constexpr double kGathering = 120;  // and the others, once rank 0 is ready
constexpr double kGrace = 3;        // for a process to end by itself when another rank is lost
constexpr int kExitRunFailed = 3;   // as runtime/app/exit_code.h has it, which stands behind this folder

}  // namespace

Ranks::Ranks(const World& world, std::vector<std::string> command)
    : world_(world), started_(std::move(command)) {
  wake_ = ::eventfd(0, EFD_CLOEXEC);
  if (leads()) {
    listener_ = RankSocket::listen(world.meeting);
    return;
  }
  to_rank_0_ = RankSocket::connect(world.meeting, world.launcher == "hydrac" ? 0 : kKnocking);
  to_rank_0_.send(Kind::hello, fmt::format("{} {} {}", rank(), size(), ::getpid()));
}

Ranks::~Ranks() {
  ending_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t woken = ::write(wake_, &one, sizeof one);
  if (watcher_.joinable()) watcher_.join();
  ::close(wake_);
}

void Ranks::assemble() {
  leads() ? welcome_others() : join_rank_0();
  watcher_ = std::thread([this] { watch(); });
}

void Ranks::welcome_others() {
  started_.start(world_);
  peers_.resize(static_cast<size_t>(size()) - 1);
  const auto missing = [&] {
    std::vector<int> ranks;
    for (size_t i = 0; i < peers_.size(); ++i)
      if (peers_[i].socket.file() < 0) ranks.push_back(static_cast<int>(i) + 1);
    return ranks;
  };
  const double began = monotonic_seconds();
  while (!missing().empty()) {
    for (const int rank : missing()) {
      if (const std::string why = started_.why(rank, 0); !why.empty())
        throw RunError(
            fmt::format("rank {} {} before the run began{}", rank, why, started_.what_it_said(rank)));
    }
    if (monotonic_seconds() - began > kGathering)
      throw RunError(fmt::format("{} started {} ranks, and these did not come: {}", world_.launcher, size(),
                                 fmt::join(missing(), ", ")));
    pollfd knocks{listener_.file(), POLLIN, 0};
    if (::poll(&knocks, 1, 50) <= 0) continue;
    std::optional<RankSocket> socket = listener_.accept();
    if (!socket) continue;
    const RankMessage hello = socket->receive();
    int rank = 0, ranks = 0, process = 0;
    if (hello.kind != Kind::hello ||
        std::sscanf(hello.text.c_str(), "%d %d %d", &rank, &ranks, &process) != 3 || ranks != size() ||
        rank < 1 || rank >= size() || peers_[static_cast<size_t>(rank) - 1].socket.file() >= 0)
      throw RunError(fmt::format("what came as another rank of {} is none: \"{}\"", size(), hello.text));
    peers_[static_cast<size_t>(rank) - 1] = {std::move(*socket), process};
  }
  const int file = SharedBoard::create(size());
  for (const Peer& peer : peers_) peer.socket.send(Kind::board, "", file);
  open_board(file);
}

void Ranks::join_rank_0() {
  const RankMessage message = to_rank_0_.receive();
  if (message.kind == Kind::failed) throw RunError(message.text);
  if (message.kind != Kind::board || message.file < 0) throw RunError("rank 0 ended before the run began");
  open_board(message.file);
}

void Ranks::open_board(int file) {
  board_ = std::make_unique<SharedBoard>(file, rank(), size());
}

void Ranks::meet() {
  if (!board_->barrier()) throw_failure();
}

void Ranks::put(std::span<std::byte> place, const std::string& text) const {
  const uint64_t bytes = text.size();
  if (bytes + sizeof bytes > place.size())
    throw std::logic_error(fmt::format("ranks cannot exchange {} bytes of text", bytes));
  std::memcpy(place.data(), &bytes, sizeof bytes);
  std::memcpy(place.data() + sizeof bytes, text.data(), bytes);
}

std::string Ranks::get(std::span<const std::byte> place) const {
  uint64_t bytes = 0;
  std::memcpy(&bytes, place.data(), sizeof bytes);
  return {reinterpret_cast<const char*>(place.data()) + sizeof bytes, static_cast<size_t>(bytes)};
}

std::string Ranks::share(const std::string& text) {
  if (leads()) put(board_->slot(0), text);  // not where others may still read a sum
  meet();
  std::string shared = get(board_->slot(0));
  meet();
  return shared;
}

std::vector<std::string> Ranks::gather(const std::string& text) {
  put(board_->slot(rank()), text);
  meet();
  std::vector<std::string> all;
  for (int r = 0; r < size(); ++r) all.push_back(get(board_->slot(r)));
  meet();
  return all;
}

bool Ranks::any(bool flag) {
  board_->word(set_, rank()) = flag ? 1 : 0;
  meet();
  bool found = false;
  for (int r = 0; r < size(); ++r) found |= board_->word(set_, r) != 0;
  set_ = 1 - set_;
  return found;
}

int Ranks::member(RankGroup group, int i) const {
  const int place = rank(RankGroup::tensor);
  return group == RankGroup::tensor ? rank() - place + i : i * layer_ranks_ + place;
}

void Ranks::all_reduce(std::span<const float> from, std::span<float> to, RankGroup group) {
  const double began = monotonic_seconds();
  const auto groups = static_cast<size_t>(size() / size(group));
  const size_t piece = SharedBoard::kSlotBytes / sizeof(float) / groups;
  for (size_t first = 0; first < from.size(); first += piece) {
    const size_t count = std::min(piece, from.size() - first);
    reduce(from.subspan(first, count), to.subspan(first, count), group);
  }
  seconds_ += monotonic_seconds() - began;
}

// One piece: each rank of a group adds up its part of it. Groups have equal parts of the result.
void Ranks::reduce(std::span<const float> from, std::span<float> to, RankGroup group) {
  std::memcpy(board_->slot(rank()).data(), from.data(), from.size_bytes());
  meet();
  const auto n = static_cast<size_t>(size(group)), r = static_cast<size_t>(rank(group));
  const size_t first = from.size() * r / n, last = from.size() * (r + 1) / n;
  const int number = group == RankGroup::tensor ? rank(RankGroup::data) : rank(RankGroup::tensor);
  auto* sum = reinterpret_cast<float*>(board_->result().data()) + static_cast<size_t>(number) * from.size();
  std::fill(sum + first, sum + last, 0.0f);
  for (int i = 0; i < size(group); ++i) {
    const auto* term = reinterpret_cast<const float*>(board_->slot(member(group, i)).data());
    for (size_t e = first; e < last; ++e) sum[e] += term[e];
  }
  meet();
  std::memcpy(to.data(), sum, to.size_bytes());
}

void Ranks::reduce_scatter(std::span<const float> whole, std::span<float> part) {
  const double began = monotonic_seconds();
  const auto n = static_cast<size_t>(size()), r = static_cast<size_t>(rank());
  const size_t piece = SharedBoard::kSlotBytes / sizeof(float) / n;  // of each part
  for (size_t first = 0; first < part.size(); first += piece) {
    const size_t count = std::min(piece, part.size() - first);
    auto* own = reinterpret_cast<float*>(board_->slot(rank()).data());
    for (size_t of = 0; of < n; ++of)
      std::memcpy(own + of * count, whole.data() + of * part.size() + first, count * sizeof(float));
    meet();
    const std::span<float> sum = part.subspan(first, count);
    std::ranges::fill(sum, 0.0f);
    for (int other = 0; other < size(); ++other) {
      const auto* term = reinterpret_cast<const float*>(board_->slot(other).data()) + r * count;
      for (size_t i = 0; i < count; ++i) sum[i] += term[i];
    }
    meet();
  }
  seconds_ += monotonic_seconds() - began;
}

void Ranks::all_gather(std::span<const float> part, std::span<float> whole, RankGroup group) {
  const double began = monotonic_seconds();
  exchange(std::as_bytes(part), [&](int from, size_t first, std::span<const std::byte> bytes) {
    const int i = group == RankGroup::tensor ? from % layer_ranks_ : from / layer_ranks_;
    if (member(group, i) != from) return;
    std::byte* to = reinterpret_cast<std::byte*>(whole.data()) + static_cast<size_t>(i) * part.size_bytes();
    std::memcpy(to + first, bytes.data(), bytes.size());
  });
  seconds_ += monotonic_seconds() - began;
}

void Ranks::collect(std::span<const std::byte> own, const Take& take) {
  exchange(
      own, leads() ? take : [](int, size_t, std::span<const std::byte>) {});
}

void Ranks::exchange(std::span<const std::byte> own, const Take& take) {
  constexpr size_t piece = SharedBoard::kSlotBytes;
  for (size_t first = 0; first < own.size(); first += piece) {
    const size_t count = std::min(piece, own.size() - first);
    std::memcpy(board_->slot(rank()).data(), own.data() + first, count);
    meet();
    for (int other = 0; other < size(); ++other) take(other, first, board_->slot(other).first(count));
    meet();
  }
}

// The watcher: the only one that reads the sockets.
void Ranks::watch() {
  while (!ending_ && !all_done_ && failure().empty()) {
    if (!watch_once()) break;
  }
  if (!failure().empty()) end_late();
}

bool Ranks::watch_once() {
  std::vector<pollfd> files = {{wake_, POLLIN, 0}};
  if (leads()) {
    for (const Peer& peer : peers_) files.push_back({peer.done ? -1 : peer.socket.file(), POLLIN, 0});
  } else {
    files.push_back({to_rank_0_.file(), POLLIN, 0});
  }
  if (::poll(files.data(), files.size(), -1) < 0) return errno == EINTR;
  for (size_t i = 1; i < files.size(); ++i)
    if (files[i].revents != 0) hear(static_cast<int>(i) - 1);
  return true;
}

void Ranks::hear(int peer) {
  if (!leads()) {
    const RankMessage message = to_rank_0_.receive();
    if (message.kind == Kind::done) {
      all_done_ = true;
    } else if (message.kind == Kind::failed) {
      note_failure(message.text);
    } else {
      note_failure("rank 0 ended without a word, killed perhaps; the other ranks end too");
      // Who would say it is gone.
      if (rank() == 1) ::dprintf(world_.errors, "hydrac: the run failed: %s\n", failure().c_str());
    }
    return;
  }
  Peer& other = peers_[static_cast<size_t>(peer)];
  const RankMessage message = other.socket.receive();
  const std::string name = fmt::format("rank {} (process {})", peer + 1, other.process);
  if (message.kind == Kind::done) {
    other.done = true;
    all_done_ = std::ranges::all_of(peers_, &Peer::done);
  } else if (message.kind == Kind::failed) {
    note_failure(fmt::format("{}: {}", name, message.text));
  } else {
    const std::string why = started_.why(peer + 1, 0.5);
    note_failure(fmt::format("{} {}; the other ranks end too", name,
                             why.empty() ? "ended without a word, killed perhaps" : why));
  }
}

// The first one counts: what follows is its consequence.
void Ranks::note_failure(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = why;
  }
  for (const Peer& peer : peers_)
    if (peer.socket.file() >= 0) peer.socket.send(Kind::failed, why);
  if (board_) board_->fail();
}

std::string Ranks::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// The watcher may hear why a little later than the board knows that.
void Ranks::throw_failure() const {
  const double began = monotonic_seconds();
  while (failure().empty() && monotonic_seconds() - began < kGrace) ::usleep(2'000);
  throw RunError(failure().empty() ? "another rank failed" : failure());
}

// A rank that computes, or writes a checkpoint, does not meet the others for long. What it writes is whole or
// not there.
void Ranks::end_late() {
  const double began = monotonic_seconds();
  while (!ending_ && monotonic_seconds() - began < kGrace) ::usleep(10'000);
  if (ending_) return;
  if (leads()) ::dprintf(world_.errors, "hydrac: the run failed: %s\n", failure().c_str());
  ::_exit(kExitRunFailed);
}

void Ranks::fail(std::string_view why) noexcept {
  if (!failure().empty()) return;
  if (leads()) return note_failure(fmt::format("rank 0: {}", why));
  to_rank_0_.send(Kind::failed, why);
  if (board_) board_->fail();
}

void Ranks::finish() {
  meet();
  if (!leads()) to_rank_0_.send(Kind::done);
  watcher_.join();
  if (!failure().empty()) throw_failure();
  for (const Peer& peer : peers_) peer.socket.send(Kind::done);
}

}  // namespace hydrac::runtime
