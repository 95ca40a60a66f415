#include "runtime/parallel/newcomers.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/error.h"
#include "runtime/log/monotonic.h"

namespace hydrac::runtime {

namespace {

// Limits on the descriptors and memory that strangers may occupy. A rank identifies itself as it connects,
// and is read as soon as it is accepted.
constexpr size_t kMost = 128, kMostBytes = 8 << 10;

bool add(int events, int file) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = file;
  return ::epoll_ctl(events, EPOLL_CTL_ADD, file, &event) == 0;
}

}  // namespace

Newcomers::Newcomers(const RankSocket& door) : door_(door), events_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (events_ < 0 || !add(events_, door.file()))
    throw RunError(fmt::format("cannot wait for the other ranks: {}", std::strerror(errno)));
}

Newcomers::~Newcomers() {
  if (events_ >= 0) ::close(events_);
}

std::optional<Newcomers::Arrival> Newcomers::next() {
  send_late_ones_away();
  epoll_event event{};
  for (size_t i = 0; i < kMost; ++i) {  // strangers may go on and on
    if (::epoll_wait(events_, &event, 1, 0) <= 0) break;
    const int file = event.data.fd == door_.file() ? let_in() : event.data.fd;
    if (file < 0) break;
    if (std::optional<Arrival> arrival = read(file)) return arrival;
  }
  return std::nullopt;
}

// The descriptor of an accepted connection, or -1.
int Newcomers::let_in() {
  std::optional<RankSocket> socket = door_.accept();
  if (!socket || !add(events_, socket->file())) return -1;
  if (waiting_.size() >= kMost)
    waiting_.erase(
        std::ranges::min_element(waiting_, {}, [](const auto& newcomer) { return newcomer.second.came; }));
  const int file = socket->file();
  waiting_[file] = {std::move(*socket), "", monotonic_seconds()};
  return file;
}

std::optional<Newcomers::Arrival> Newcomers::read(int file) {
  const auto newcomer = waiting_.find(file);
  std::optional<RankMessage> message =
      newcomer->second.socket.receive_part(newcomer->second.begun, kMostBytes);
  if (!message) return std::nullopt;
  if (message->file >= 0) ::close(std::exchange(message->file, -1));  // nobody gives one unasked
  ::epoll_ctl(events_, EPOLL_CTL_DEL, file, nullptr);
  Arrival arrival{std::move(newcomer->second.socket), std::move(*message)};
  waiting_.erase(newcomer);
  return arrival;
}

void Newcomers::send_late_ones_away() {
  const double now = monotonic_seconds();
  std::erase_if(waiting_,
                [&](const auto& newcomer) { return now - newcomer.second.came > kSecondsOfAMessage; });
}

}  // namespace hydrac::runtime
