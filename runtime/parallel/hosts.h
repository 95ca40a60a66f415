// The rendezvous of a run with several hosts: the message of each rank that connects, and rank 0's answer.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace hydrac::runtime {

// 128 random bits in hexadecimal digits, which nobody guesses. RunError.
std::string new_secret();

// This machine's name, without characters that texts between ranks give a meaning to.
std::string host_name();

// A rank's first message. Anybody who found the port can send one, so parse() trusts nothing in it.
struct Hello {
  std::string run;  // World::meeting
  int rank = 0, ranks = 1, process = 0;
  // Set if a run has several hosts; HostPlace has the first three.
  std::string host;
  int local_rank = 0, local_ranks = 1;
  std::string name;     // of the host
  std::string address;  // of the host, as others reach it
  int port = 0;         // at which a host's first rank waits for the other hosts'
  std::string token;    // World::token

  std::string text() const;
  // nullopt: not a rank of this version of the protocol.
  static std::optional<Hello> parse(const std::string& text);
};

struct Host {
  std::string id, name, address;
  int port = 0;            // of its first rank
  std::vector<int> ranks;  // by their number on this host

  std::string text() const;  // "node-1 (10.0.0.1)"
};

// All hosts of a run, that of rank 0 first, then by their first ranks.
struct Roster {
  std::string secret;  // rank 0's, new in each run, so that the ranks of hosts know each other
  std::vector<Host> hosts;

  std::string text() const;
  static std::optional<Roster> parse(const std::string& text, int ranks);
  int host_of(int rank) const;  // its place among `hosts`
};

// `all`: by rank. RunError: ranks say different things of their host.
Roster roster_of(const std::vector<Hello>& all);

}  // namespace hydrac::runtime
