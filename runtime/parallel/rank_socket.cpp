#include "runtime/parallel/rank_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/error.h"
#include "runtime/log/monotonic.h"

namespace hydrac::runtime {

namespace {

constexpr size_t kMostText = 8000, kMostFrame = 256 << 10;

// In front of a message's text on TCP.
struct FrameStart {
  char kind = 0, unused[3] = {};
  uint32_t bytes = 0;
};

// Linux's abstract names: of no file, and free again when their socket is closed.
struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;

  explicit Address(const std::string& meeting) {
    uint64_t hash = 14695981039346656037u;  // FNV-1a: names are short, meetings are not
    for (const char c : meeting) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    const std::string text = fmt::format("hydrac-{}-{:016x}", ::getuid(), hash);
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

int new_socket(int flags = 0) {
  const int file = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
  if (file < 0) throw RunError(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  return file;
}

bool is_of_this_user(int file) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return ::getsockopt(file, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == ::getuid();
}

}  // namespace

RankSocket::~RankSocket() {
  if (file_ >= 0) ::close(file_);
}

RankSocket& RankSocket::operator=(RankSocket&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(is_tcp_, other.is_tcp_);
  return *this;
}

RankSocket RankSocket::listen(const std::string& meeting) {
  RankSocket socket(new_socket(SOCK_NONBLOCK));
  const Address address(meeting);
  if (::bind(socket.file_, address.get(), address.bytes) != 0 || ::listen(socket.file_, SOMAXCONN) != 0)
    throw InputError(
        fmt::format("rank 0 cannot wait for the other ranks at {}: {}; is another run with this address and "
                    "port going on?",
                    meeting, std::strerror(errno)));
  return socket;
}

RankSocket RankSocket::connect(const std::string& meeting, double seconds) {
  const Address address(meeting);
  const double began = monotonic_seconds();
  for (;;) {
    RankSocket socket(new_socket());
    if (::connect(socket.file_, address.get(), address.bytes) == 0) {
      if (!is_of_this_user(socket.file_)) throw RunError("another user's process is where rank 0 should be");
      return socket;
    }
    if (monotonic_seconds() - began > seconds)
      throw RunError(fmt::format("rank 0 is not there ({}: {})", meeting, std::strerror(errno)));
    ::usleep(20'000);
  }
}

std::optional<RankSocket> RankSocket::accept() const {
  const int file = ::accept4(file_, nullptr, nullptr, SOCK_CLOEXEC);
  if (file < 0) return std::nullopt;
  if (is_tcp_) return of_tcp(file);
  RankSocket socket(file);
  if (!is_of_this_user(socket.file_)) return std::nullopt;
  return socket;
}

RankSocket RankSocket::listen_tcp(const Endpoint& endpoint) {
  RankSocket socket(listen_at(endpoint));
  socket.is_tcp_ = true;
  return socket;
}

RankSocket RankSocket::of_tcp(int connection) {
  fail_after_silence(connection);
  RankSocket socket(connection);
  socket.is_tcp_ = true;
  return socket;
}

bool RankSocket::send_frame(RankMessage::Kind kind, std::string_view text) const {
  const FrameStart start{.kind = static_cast<char>(kind), .bytes = static_cast<uint32_t>(text.size())};
  std::string frame(reinterpret_cast<const char*>(&start), sizeof start);
  frame += text;
  for (size_t sent = 0; sent < frame.size();) {
    const ssize_t bytes = ::send(file_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (bytes < 0 && errno != EINTR) return false;
    if (bytes > 0) sent += static_cast<size_t>(bytes);
  }
  return true;
}

// Reads no further than the message's end. An invalid message closes the connection.
std::optional<RankMessage> RankSocket::receive_frame(std::string& begun, size_t most) const {
  RankMessage received;
  FrameStart start;
  for (;;) {
    size_t whole = sizeof start;
    if (begun.size() >= whole) {
      std::memcpy(&start, begun.data(), sizeof start);
      if (start.bytes > most) return received;
      whole += start.bytes;
    }
    if (begun.size() >= sizeof start && begun.size() == whole) break;
    char piece[4096];
    const ssize_t bytes = ::recv(file_, piece, std::min(sizeof piece, whole - begun.size()), MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) return std::nullopt;
    if (bytes <= 0) {
      if (bytes < 0 && errno != ECONNRESET) received.text = std::strerror(errno);
      return received;
    }
    begun.append(piece, static_cast<size_t>(bytes));
  }
  received.kind = static_cast<RankMessage::Kind>(start.kind);
  received.text = begun.substr(sizeof start);
  return received;
}

bool RankSocket::send(RankMessage::Kind kind, std::string_view text, int file) const {
  if (is_tcp_) return send_frame(kind, text.substr(0, kMostFrame));
  char tag = static_cast<char>(kind);
  text = text.substr(0, kMostText);
  iovec parts[] = {{&tag, 1}, {const_cast<char*>(text.data()), text.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof(int));
  }
  ssize_t sent = 0;
  while ((sent = ::sendmsg(file_, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return sent >= 0;
}

RankMessage RankSocket::receive() const {
  std::string begun;
  pollfd ready{file_, POLLIN, 0};
  while (::poll(&ready, 1, -1) < 0 && errno == EINTR) {
  }
  const double deadline = monotonic_seconds() + kSecondsOfAMessage;
  for (;;) {
    if (std::optional<RankMessage> message = receive_part(begun, kMostFrame)) return *message;
    const double left = deadline - monotonic_seconds();
    if (left <= 0) return {};
    ::poll(&ready, 1, static_cast<int>(left * 1e3) + 1);
  }
}

std::optional<RankMessage> RankSocket::receive_part(std::string& begun, size_t most) const {
  return is_tcp_ ? receive_frame(begun, most) : receive_packet();
}

std::optional<RankMessage> RankSocket::receive_packet() const {
  std::string text(kMostText + 1, '\0');
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t bytes = 0;
  // An end that was closed before it had read all is said once, in front of what it had sent.
  while ((bytes = ::recvmsg(file_, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)) < 0 &&
         (errno == EINTR || errno == ECONNRESET)) {
  }
  if (bytes < 0 && errno == EAGAIN) return std::nullopt;
  RankMessage received;
  if (bytes <= 0) return received;
  received.kind = static_cast<RankMessage::Kind>(text[0]);
  received.text = text.substr(1, static_cast<size_t>(bytes) - 1);
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header && header->cmsg_type == SCM_RIGHTS)
    std::memcpy(&received.file, CMSG_DATA(header), sizeof(int));
  return received;
}

}  // namespace hydrac::runtime
