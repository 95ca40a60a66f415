#include "runtime/parallel/host_links.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/error.h"
#include "runtime/parallel/tcp.h"

namespace hydrac::runtime {

namespace {

constexpr int kMillisecondsToPoll = 50;

// In front of what a host sends in one exchange. Lengths are this host's own: what it receives is compared.
struct ExchangeStart {
  uint64_t number = 0, bytes = 0;
  bool operator==(const ExchangeStart&) const = default;
};

// Stretches of memory that are sent, or filled, one after the other.
class Transfer {
 public:
  // Keeps a pointer to `start`.
  void begin(ExchangeStart& start, const HostLinks::Places& places) {
    parts_ = {{&start, sizeof start}};
    for (const std::span<std::byte> place : places)
      if (!place.empty()) parts_.push_back({place.data(), place.size()});
  }
  bool is_done() const { return next_ == parts_.size(); }
  bool has_start() const { return next_ > 0; }

  // Transfers as much as `call` (sendmsg, recvmsg) does without blocking. 0, or an errno.
  template <class Call>
  int go_on(const Call& call, size_t most_parts) {
    while (!is_done()) {
      msghdr message{};
      message.msg_iov = &parts_[next_];
      message.msg_iovlen = std::min(parts_.size() - next_, most_parts);
      const ssize_t bytes = call(message);
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes < 0) return errno == EAGAIN ? 0 : errno;
      if (bytes == 0) return ECONNRESET;
      advance(static_cast<size_t>(bytes));
      if (most_parts == 1) return 0;
    }
    return 0;
  }

 private:
  void advance(size_t bytes) {
    while (bytes > 0) {
      iovec& part = parts_[next_];
      const size_t done = std::min(bytes, part.iov_len);
      part.iov_base = static_cast<std::byte*>(part.iov_base) + done;
      part.iov_len -= done;
      bytes -= done;
      if (part.iov_len == 0) ++next_;
    }
  }

  std::vector<iovec> parts_;
  size_t next_ = 0;
};

size_t bytes_of(const HostLinks::Places& places) {
  size_t bytes = 0;
  for (const std::span<std::byte> place : places) bytes += place.size();
  return bytes;
}

// One host's part of an exchange. ExchangeStarts stay where they are while it lasts.
struct Side {
  ExchangeStart to_send, expected, came;
  Transfer out, in;

  void begin(uint64_t number, const HostLinks::Exchange& exchange) {
    to_send = {number, bytes_of(exchange.out)};
    expected = {number, bytes_of(exchange.in)};
    out.begin(to_send, exchange.out);
    in.begin(came, exchange.in);
  }
  bool is_done() const { return out.is_done() && in.is_done(); }

  // "", or why the connection is unusable. Nothing after the start is read before the start is compared.
  std::string go_on(int file) {
    constexpr size_t kParts = 64;
    int error = out.go_on(
        [&](const msghdr& message) { return ::sendmsg(file, &message, MSG_DONTWAIT | MSG_NOSIGNAL); },
        kParts);
    const auto read = [&](msghdr& message) { return ::recvmsg(file, &message, MSG_DONTWAIT); };
    if (error == 0 && !in.has_start()) error = in.go_on(read, 1);
    if (error == 0 && in.has_start()) {
      if (came != expected)
        return fmt::format("it sends {} bytes as number {}, not {} as number {}", came.bytes, came.number,
                           expected.bytes, expected.number);
      error = in.go_on(read, kParts);
    }
    return error == 0 ? "" : std::strerror(error);
  }
};

}  // namespace

HostLinks::HostLinks(std::vector<int> connections, std::vector<std::string> names)
    : connections_(std::move(connections)), names_(std::move(names)) {
  for (const int file : connections_)
    if (file >= 0) wait_for_slow_readers(file);
}

HostLinks::~HostLinks() {
  for (const int file : connections_)
    if (file >= 0) ::close(file);
}

bool HostLinks::exchange(const std::function<Exchange(int host)>& of, const std::function<bool()>& is_over) {
  ++number_;
  std::vector<Side> sides(connections_.size());
  std::vector<pollfd> files;
  for (size_t host = 0; host < sides.size(); ++host) {
    files.push_back({connections_[host], 0, 0});
    if (connections_[host] >= 0) sides[host].begin(number_, of(static_cast<int>(host)));
  }
  for (;;) {
    bool is_done = true;
    for (size_t host = 0; host < sides.size(); ++host) {
      if (connections_[host] < 0) continue;
      Side& side = sides[host];
      if (const std::string why = side.go_on(connections_[host]); !why.empty())
        throw RunError(fmt::format("lost the connection to host {}: {}", names_[host], why));
      files[host].events =
          static_cast<short>((side.in.is_done() ? 0 : POLLIN) | (side.out.is_done() ? 0 : POLLOUT));
      files[host].fd = side.is_done() ? -1 : connections_[host];
      is_done &= side.is_done();
    }
    if (is_done) return true;
    if (::poll(files.data(), files.size(), kMillisecondsToPoll) < 0 && errno != EINTR)
      throw RunError(fmt::format("cannot wait for the other hosts: {}", std::strerror(errno)));
    if (is_over()) return false;
  }
}

}  // namespace hydrac::runtime
