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

// A socket that listens: at an address at this one alone, at a name at all of this host's, because a host's
// own name may mean its loopback interface. Port 0: one that is free. Accepting from it does not wait. The
// caller closes it. InputError.
int listen_at(const Endpoint& endpoint);
int port_of(int listener);

// A connection, the caller's to close; -1, and why. Tries for some seconds. `own_address`: that of this end;
// empty: the system's choice.
int connect_to(const Endpoint& endpoint, const std::string& own_address, std::string& why);

// The address of this end, or of the other, in numbers.
std::string own_address_of(int connection);
std::string other_address_of(int connection);

inline constexpr int kSecondsOfSilence = 25;
// The connection fails once the other host has not answered the kernel for so long: it lost its power, or the
// network did. A process that is only slow does answer.
void fail_after_silence(int connection);
// For much data: sent at once, and as slowly as the other end reads it. Undoes part of fail_after_silence(),
// for which a process that reads nothing is as good as gone.
void wait_for_slow_readers(int connection);

}  // namespace hydrac::runtime
