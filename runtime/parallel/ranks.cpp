#include "runtime/parallel/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/error.h"
#include "runtime/log/monotonic.h"
#include "runtime/parallel/newcomers.h"

namespace hydrac::runtime {

namespace {

using Kind = RankMessage::Kind;

constexpr double kKnocking = 60;         // seconds that rank 0 of a launcher may take to come
constexpr double kKnockingAbroad = 120;  // likewise where it may be on another host
constexpr double kGathering = 120;       // and the others, once rank 0 is ready
constexpr double kBetweenNotes = 15;     // while this rank waits for rank 0's host
constexpr int kMillisecondsBetweenLooks = 50;

void pause_between_tries() {
  ::usleep(100'000);
}

}  // namespace

Ranks::Ranks(const World& world, std::vector<std::string> command)
    : world_(world), started_(std::move(command)) {
  wake_ = ::eventfd(0, EFD_CLOEXEC);
  if (leads_host() && (world.host || leads())) listener_ = RankSocket::listen(local_meeting());
  if (leads() && world.host) tcp_listener_ = RankSocket::listen_tcp(world.host->rendezvous);
  if (!leads()) knock();
}

Ranks::~Ranks() {
  ending_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t woken = ::write(wake_, &one, sizeof one);
  if (watcher_.joinable()) watcher_.join();
  ::close(wake_);
}

// The rendezvous name for the ranks of this host. Hosts of a run have different names, even if they are one
// machine.
std::string Ranks::local_meeting() const {
  return world_.host ? fmt::format("{} on {}", world_.meeting, world_.host->id) : world_.meeting;
}

std::string Ranks::name(int rank) const {
  if (roster_.hosts.empty()) return fmt::format("rank {}", rank);
  const Host& host = roster_.hosts[static_cast<size_t>(roster_.host_of(rank))];
  return fmt::format("rank {} on host {}", rank, host.text());
}

Hello Ranks::own_hello() const {
  Hello hello;
  hello.run = world_.meeting;
  hello.token = world_.token;
  hello.rank = rank();
  hello.ranks = size();
  hello.process = ::getpid();
  if (!world_.host) return hello;
  hello.host = world_.host->id;
  hello.local_rank = world_.host->rank;
  hello.local_ranks = world_.host->ranks;
  hello.name = host_name();
  hello.address = leads() ? world_.host->rendezvous.host : own_address_of(to_rank_0_.file());
  if (tcp_listener_.file() >= 0) hello.port = port_of(tcp_listener_.file());
  return hello;
}

// Connects a rank other than 0 to rank 0. The first rank of another host also listens for the first ranks of
// other hosts.
void Ranks::knock() {
  if (!world_.host) {
    to_rank_0_ = RankSocket::connect(world_.meeting, world_.launcher == "hydrac" ? 0 : kKnocking);
    to_rank_0_.send(Kind::hello, own_hello().text());
    return;
  }
  const HostPlace& host = *world_.host;
  const double began = monotonic_seconds();
  double noted = 0;
  std::string why;
  for (int connection = -1; connection < 0;) {
    connection = connect_to(host.rendezvous, host.address, why);
    const double waited = monotonic_seconds() - began;
    if (connection >= 0) {
      to_rank_0_ = RankSocket::of_tcp(connection);
    } else if (waited > kKnockingAbroad) {
      throw RunError(fmt::format(
          "rank {} on host {} did not reach rank 0 at {} within {:.0f} s: {}; does rank 0 run there, does "
          "that name "
          "mean the same on both hosts, and does no firewall close the port? HYDRAC_RENDEZVOUS=HOST:PORT in "
          "the environment of all ranks names another",
          rank(), host_name(), host.rendezvous.text(), kKnockingAbroad, why));
    } else {
      if (leads_host() && waited > noted + kBetweenNotes) {
        noted = waited;
        ::dprintf(world_.errors, "rank %d on host %s waits for rank 0 at %s: %s\n", rank(),
                  host_name().c_str(), host.rendezvous.text().c_str(), why.c_str());
      }
      pause_between_tries();
    }
  }
  if (leads_host()) tcp_listener_ = RankSocket::listen_tcp({own_address_of(to_rank_0_.file()), 0});
  to_rank_0_.send(Kind::hello, own_hello().text());
}

void Ranks::assemble() {
  leads() ? welcome_others() : join_rank_0();
  if (world_.host) {
    share_board();
    link_hosts();
    if (!failure().empty()) throw_failure();  // heard beside what was waited for
  }
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
  Newcomers newcomers(door());
  const double began = monotonic_seconds();
  while (!missing().empty()) {
    require_progress(missing(), monotonic_seconds() - began);
    pollfd knocks{newcomers.file(), POLLIN, 0};
    ::poll(&knocks, 1, kMillisecondsBetweenLooks);
    if (auto arrival = newcomers.next()) admit(std::move(arrival->socket), arrival->message);
  }
  if (world_.host) {
    std::vector<Hello> all = {own_hello()};
    for (const Peer& peer : peers_) all.push_back(peer.hello);
    roster_ = roster_of(all);
    for (const Peer& peer : peers_) peer.socket.send(Kind::roster, roster_.text());
    return;
  }
  const int file = SharedBoard::create(size());
  for (const Peer& peer : peers_) peer.socket.send(Kind::board, "", file);
  open_board(file);
}

// RunError, or InputError, where ranks that have not come will not.
void Ranks::require_progress(const std::vector<int>& missing, double waited) {
  for (const int rank : missing) {
    const std::string why = started_.why(rank, 0);
    if (why.empty()) continue;
    const std::string text =
        fmt::format("rank {} {} before the run began{}", rank, why, started_.what_it_said(rank));
    if (started_.refused(rank)) throw InputError(text);
    throw RunError(text);
  }
  if (waited <= kGathering) return;
  std::string text = fmt::format("{} started {} ranks, and these did not come: {}", world_.launcher, size(),
                                 fmt::join(missing, ", "));
  if (world_.host)
    text +=
        fmt::format("; do their hosts reach {}, through their firewalls?", world_.host->rendezvous.text());
  throw RunError(text);
}

// A note about a rejected connection; limited in number, so that strangers who try again and again do not
// fill a log.
void Ranks::note_stranger(const RankSocket& socket, const char* why) {
  constexpr int kMostNotes = 3;
  if (world_.host && ++strangers_ <= kMostNotes)
    ::dprintf(world_.errors, "note: what connected from %s %s%s\n", other_address_of(socket.file()).c_str(),
              why, strangers_ == kMostNotes ? "; others like it are not mentioned" : "");
}

// The sender, if it is a rank of this run. Anyone else learns nothing about the run from the answer.
std::optional<Hello> Ranks::recognize(const RankSocket& socket, const RankMessage& message) {
  std::optional<Hello> hello = message.kind == Kind::hello ? Hello::parse(message.text) : std::nullopt;
  if (!hello) {
    note_stranger(socket, "is no rank of this version of hydrac");
  } else if (hello->token != world_.token) {
    note_stranger(socket, "has another HYDRAC_RENDEZVOUS_TOKEN, or is of another run");
    socket.send(Kind::failed,
                fmt::format("the rank 0 that is there has another HYDRAC_RENDEZVOUS_TOKEN, or is "
                            "of another run; this one is {}",
                            hello->run));
    hello.reset();
  } else if (hello->run != world_.meeting) {
    socket.send(Kind::failed, fmt::format("rank 0 of another run is there, {}: this one is {}",
                                          world_.meeting, hello->run));
    hello.reset();
  }
  return hello;
}

// Admits a rank of this run and closes any other connection. RunError: a rank that contradicts the run.
void Ranks::admit(RankSocket socket, const RankMessage& message) {
  const std::optional<Hello> hello = recognize(socket, message);
  if (!hello) return;
  const std::string who =
      world_.host ? fmt::format("rank {} on host {} ({})", hello->rank, hello->name, hello->address)
                  : fmt::format("rank {}", hello->rank);
  std::string problem;
  Peer* const peer =
      hello->rank >= 1 && hello->rank < size() ? &peers_[static_cast<size_t>(hello->rank) - 1] : nullptr;
  if (hello->ranks != size())
    problem =
        fmt::format("{} was started as one of {} ranks, and rank 0 as one of {}", who, hello->ranks, size());
  else if (!peer || peer->socket.file() >= 0)
    problem = fmt::format("{} came twice: process {} is another one of that number", who, hello->process);
  if (!problem.empty()) {
    socket.send(Kind::failed, problem);
    throw RunError(problem);
  }
  peer->socket = std::move(socket);
  peer->hello = *hello;
}

// Rank 0 may compile for minutes before it answers.
void Ranks::join_rank_0() {
  const RankMessage message = to_rank_0_.receive();
  if (message.kind == Kind::failed) throw RunError(message.text);
  if (message.kind == Kind::refused) throw InputError(message.text);
  if (message.kind == Kind::board && message.file >= 0) return open_board(message.file);
  const std::optional<Roster> roster =
      message.kind == Kind::roster ? Roster::parse(message.text, size()) : std::optional<Roster>();
  if (!roster)
    throw RunError(world_.host && message.kind != Kind::closed
                       ? fmt::format("what answers at {} is no rank 0", world_.host->rendezvous.text())
                       : "rank 0 ended before the run began");
  roster_ = *roster;
}

void Ranks::open_board(int file) {
  board_ = std::make_unique<SharedBoard>(file, size(), world_.local_size());
}

}  // namespace hydrac::runtime
