// Runs once all ranks of several hosts are known: each host makes memory for its ranks, and the first ranks
// of hosts connect. The watching thread does not run yet, so failures of other ranks are noticed here.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/error.h"
#include "runtime/log/monotonic.h"
#include "runtime/parallel/ranks.h"

namespace hydrac::runtime {

namespace {

constexpr double kConnecting = 120;  // seconds, for the first ranks of other hosts
constexpr double kAnswering = 1;     // for a rank that has listened since before it knocked
constexpr int kMillisecondsToLook = 50;

}  // namespace

void Ranks::share_board() {
  own_host_ = roster_.host_of(rank());
  if (leads_host()) return give_board();
  open_board(receive_board());
}

void Ranks::give_board() {
  const int file = SharedBoard::create(size());
  Newcomers newcomers(listener_);
  for (int left = world_.local_size() - 1; left > 0;) {
    if (watch_once(newcomers.file(), kMillisecondsToLook)) {
      const auto arrival = newcomers.next();
      const std::optional<Hello> hello =
          arrival ? recognize(arrival->socket, arrival->message) : std::optional<Hello>();
      const bool is_ours =
          hello && std::ranges::find(own_host().ranks, hello->rank) != own_host().ranks.end();
      if (is_ours && arrival->socket.send(RankMessage::Kind::board, "", file)) --left;
    }
    if (failure().empty()) continue;
    ::close(file);
    throw_failure();
  }
  open_board(file);
}

int Ranks::receive_board() {
  const std::string lost = fmt::format("{} ended before the run began", name(own_host().ranks[0]));
  RankSocket first;
  try {
    first = RankSocket::connect(local_meeting(), kAnswering);
  } catch (const RunError&) {
    throw_what_is_heard(lost);
  }
  first.send(RankMessage::Kind::hello, own_hello().text());
  while (!watch_once(first.file(), kMillisecondsToLook))
    if (!failure().empty()) throw_failure();
  const RankMessage message = first.receive();
  if (message.kind != RankMessage::Kind::board || message.file < 0) throw_what_is_heard(lost);
  return message.file;
}

// Before there is a watcher: rank 0 may know the cause, a little later.
void Ranks::throw_what_is_heard(const std::string& otherwise) {
  const double began = monotonic_seconds();
  while (failure().empty() && monotonic_seconds() - began < kHearing) watch_once(-1, kMillisecondsToLook);
  throw_failure(otherwise, 0);
}

// The first rank of a host connects to those of earlier hosts, and waits for those of later ones.
void Ranks::link_hosts() {
  if (!leads_host()) return;
  std::vector<int> connections = connect_to_hosts();
  Newcomers newcomers(tcp_listener_);
  const double began = monotonic_seconds();
  const auto is_missing = [&](size_t host) {
    return static_cast<int>(host) != own_host_ && connections[host] < 0;
  };
  for (size_t host = 0; host < connections.size();) {
    if (!is_missing(host)) {
      ++host;
    } else if (!watch_once(newcomers.file(), kMillisecondsToLook) || !take_link(newcomers, connections)) {
      if (!failure().empty()) throw_failure();
      if (monotonic_seconds() - began > kConnecting)
        throw RunError(fmt::format("host {} did not connect to host {} within {:.0f} s",
                                   roster_.hosts[host].text(), own_host().text(), kConnecting));
    }
  }
  std::vector<std::string> names;
  for (const Host& host : roster_.hosts) names.push_back(host.text());
  links_ = std::make_unique<HostLinks>(std::move(connections), std::move(names));
  tcp_listener_ = RankSocket();  // nobody else is to come
  listener_ = RankSocket();
}

// By host; -1 where there is no connection yet.
std::vector<int> Ranks::connect_to_hosts() {
  std::vector<int> connections(roster_.hosts.size(), -1);
  for (int host = 0; host < own_host_; ++host) {
    const Host& other = roster_.hosts[static_cast<size_t>(host)];
    const Endpoint endpoint = host == 0 ? world_.host->rendezvous : Endpoint{other.address, other.port};
    std::string why;
    const int connection = connect_to(endpoint, world_.host->address, why);
    if (connection < 0)
      throw_what_is_heard(fmt::format(
          "host {} cannot connect to host {} at {}: {}; do firewalls let the hosts of a run connect to each "
          "other, and is that an address that both have a way to (HYDRAC_ADDRESS names another)?",
          own_host().text(), other.text(), endpoint.text(), why));
    RankSocket socket = RankSocket::of_tcp(connection);
    socket.send(RankMessage::Kind::link, fmt::format("{} {}", roster_.secret, own_host_));
    connections[static_cast<size_t>(host)] = socket.release();
  }
  return connections;
}

// False: what came is not another host of this run.
bool Ranks::take_link(Newcomers& newcomers, std::vector<int>& connections) {
  std::optional<Newcomers::Arrival> arrival = newcomers.next();
  if (!arrival || arrival->message.kind != RankMessage::Kind::link) return false;
  for (size_t host = static_cast<size_t>(own_host_) + 1; host < connections.size(); ++host) {
    const std::string expected = fmt::format("{} {}", roster_.secret, host);
    if (connections[host] >= 0 || arrival->message.text != expected) continue;
    connections[host] = arrival->socket.release();
    return true;
  }
  return false;
}

}  // namespace hydrac::runtime
