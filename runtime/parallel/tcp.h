// TCP between the hosts of a run: only where a launcher started ranks on several.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hydrac::runtime {

struct Endpoint {
  std::string host;  // a name, or an address of IPv4 or IPv6
  int port = 0;

  std::string text() const;  // "node-1:29500", "[fe80::1]:29500"
};

// Parses Endpoint::text(); nullopt if `text` is nothing of the kind.
std::optional<Endpoint> parse_endpoint(std::string_view text);

// A listening socket. Given an address, it listens at that one only. Given a name, it listens at all of this
// host's addresses, because a host's own name may resolve to its loopback interface. Port 0: a free one.
// Accepting does not block. The caller closes it. InputError.
int listen_at(const Endpoint& endpoint);
int port_of(int listener);

// A connection, which the caller closes; -1 with the reason in `why`. Tries for some seconds. `own_address`:
// the address of this end; empty: the system's choice.
int connect_to(const Endpoint& endpoint, const std::string& own_address, std::string& why);

// The address of this end, or of the other, in numbers.
std::string own_address_of(int connection);
std::string other_address_of(int connection);

inline constexpr int kSecondsOfSilence = 25;
// Makes the connection fail once the other host's kernel has not answered for so long, because it or the
// network is down. A process that is only slow does not count.
void fail_after_silence(int connection);
// For bulk data: without delay (TCP_NODELAY), and tolerant of a slow reader. Undoes the part of
// fail_after_silence() that treats a process that reads nothing as gone.
void wait_for_slow_readers(int connection);

}  // namespace hydrac::runtime
