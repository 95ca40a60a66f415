#include "runtime/parallel/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

constexpr int kMillisecondsToConnect = 5000;

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Null, and why.
Found find_host(const std::string& host, int port, int flags, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) why = error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error);
  return {error == 0 ? found : nullptr, &::freeaddrinfo};
}

void set_option(int file, int level, int option, int value) {
  ::setsockopt(file, level, option, &value, sizeof value);
}

// -1, with errno.
int listener_of(const addrinfo& at) {
  const int file = ::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) return -1;
  set_option(file, SOL_SOCKET, SO_REUSEADDR, 1);  // the port of a run that has ended
  if (at.ai_family == AF_INET6) set_option(file, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(file, at.ai_addr, at.ai_addrlen) == 0 && ::listen(file, SOMAXCONN) == 0) return file;
  const int error = errno;
  ::close(file);
  errno = error;
  return -1;
}

std::string text_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  if (address.ss_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  const std::string_view mapped = "::ffff:";  // IPv4 on a socket of IPv6
  return std::string_view(text).starts_with(mapped) ? text + mapped.size() : text;
}

using AddressOf = int (*)(int, sockaddr*, socklen_t*);

sockaddr_storage address_of(int file, AddressOf which) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  which(file, reinterpret_cast<sockaddr*>(&address), &bytes);
  return address;
}

// Two attempts to connect to a free port may find each other, or one itself.
bool is_connected_to_itself(int file) {
  const sockaddr_storage own = address_of(file, ::getsockname), other = address_of(file, ::getpeername);
  return std::memcmp(&own, &other, sizeof own) == 0;
}

// 0, or an errno.
int connect_within(int file, const addrinfo& to) {
  if (::connect(file, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd ready{file, POLLOUT, 0};
  if (::poll(&ready, 1, kMillisecondsToConnect) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t bytes = sizeof error;
  ::getsockopt(file, SOL_SOCKET, SO_ERROR, &error, &bytes);
  return error;
}

// -1, and why.
int connection_to(const addrinfo& to, const std::string& own_address, std::string& why) {
  const int file = ::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int error = file < 0 ? errno : 0;
  if (error == 0 && !own_address.empty()) {
    const Found own = find_host(own_address, 0, AI_NUMERICHOST, why);
    if (!own || ::bind(file, own->ai_addr, own->ai_addrlen) != 0) error = own ? errno : EINVAL;
  }
  if (error == 0) error = connect_within(file, to);
  if (error == 0 && is_connected_to_itself(file)) error = ECONNREFUSED;
  if (error == 0) {
    ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_NONBLOCK);
    return file;
  }
  why = std::strerror(error);
  if (file >= 0) ::close(file);
  return -1;
}

bool is_address(const std::string& host) {
  std::string why;
  return find_host(host, 0, AI_NUMERICHOST, why) != nullptr;
}

}  // namespace

std::string Endpoint::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::optional<Endpoint> parse_endpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  Endpoint endpoint;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), endpoint.port);
  if (error != std::errc() || end != digits.data() + digits.size() || endpoint.port < 1 ||
      endpoint.port > 65535)
    return std::nullopt;
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;  // where does the port of fe80::1:29500 begin?
  }
  endpoint.host = host;
  return endpoint;
}

int listen_at(const Endpoint& endpoint) {
  std::string why;
  const bool everywhere = endpoint.host != "localhost" && !is_address(endpoint.host);
  int file = -1;
  for (const char* host : {everywhere ? "::" : endpoint.host.c_str(), everywhere ? "0.0.0.0" : ""}) {
    if (file >= 0 || *host == '\0') continue;
    const Found found = find_host(host, endpoint.port, 0, why);
    if (!found) continue;
    file = listener_of(*found);
    if (file < 0) why = std::strerror(errno);
  }
  if (file >= 0) return file;
  throw InputError(fmt::format(
      "cannot wait for the other hosts at {}: {}; is this rank 0's host, and has no other program the port? "
      "HYDRAC_RENDEZVOUS=HOST:PORT in the environment of all ranks names another",
      endpoint.text(), why));
}

int port_of(int listener) {
  const sockaddr_storage address = address_of(listener, ::getsockname);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

int connect_to(const Endpoint& endpoint, const std::string& own_address, std::string& why) {
  const Found found = find_host(endpoint.host, endpoint.port, 0, why);
  for (const addrinfo* to = found.get(); to != nullptr; to = to->ai_next) {
    const int file = connection_to(*to, own_address, why);
    if (file >= 0) return file;
  }
  return -1;
}

std::string own_address_of(int connection) {
  return text_of(address_of(connection, ::getsockname));
}

std::string other_address_of(int connection) {
  return text_of(address_of(connection, ::getpeername));
}

void fail_after_silence(int connection) {
  constexpr int kIdle = 10, kBetween = 5;
  set_option(connection, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(connection, IPPROTO_TCP, TCP_KEEPIDLE, kIdle);
  set_option(connection, IPPROTO_TCP, TCP_KEEPINTVL, kBetween);
  set_option(connection, IPPROTO_TCP, TCP_KEEPCNT, (kSecondsOfSilence - kIdle) / kBetween);
  set_option(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, kSecondsOfSilence * 1000);  // of what was sent
}

void wait_for_slow_readers(int connection) {
  set_option(connection, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
}

}  // namespace hydrac::runtime
