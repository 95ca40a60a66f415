#include "runtime/parallel/hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>
#include <string_view>

#include "runtime/error.h"
#include "runtime/parallel/world.h"

namespace hydrac::runtime {

namespace {

constexpr std::string_view kProtocol = "hydrac ranks 2";
constexpr size_t kMostName = 255;

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

bool read_number(const std::string& text, int least, int most, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
}

bool is_name(const std::string& text) {
  return text.size() <= kMostName && std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) || std::strchr(".:_-%", c) != nullptr;
         });
}

std::optional<Host> parse_host(const std::string& line, int ranks) {
  const std::vector<std::string> parts = parts_of(line, ' ');
  Host host;
  if (parts.size() != 5 || !read_number(parts[3], 0, 65535, host.port)) return std::nullopt;
  host.id = parts[0];
  host.name = parts[1];
  host.address = parts[2];
  if (!is_name(host.id) || !is_name(host.name) || !is_name(host.address)) return std::nullopt;
  for (const std::string& part : parts_of(parts[4], ','))
    if (!read_number(part, 0, ranks - 1, host.ranks.emplace_back())) return std::nullopt;
  return host;
}

}  // namespace

std::string new_secret() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    throw RunError(fmt::format("no random numbers: {}", std::strerror(errno)));
  return fmt::format("{:02x}", fmt::join(std::span(bytes), ""));
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  std::string text = std::string(name).substr(0, kMostName);
  for (char& c : text)
    if (!is_name(std::string(1, c))) c = '-';
  return text.empty() ? "unnamed" : text;
}

std::string Hello::text() const {
  return fmt::format("{}\n{}\n{} {} {}\n{} {} {}\n{} {} {}\n{}", kProtocol, run, rank, ranks, process, host,
                     local_rank, local_ranks, name, address, port, token);
}

std::optional<Hello> Hello::parse(const std::string& text) {
  const std::vector<std::string> lines = parts_of(text, '\n');
  if (lines.size() != 6 || lines[0] != kProtocol) return std::nullopt;
  const std::vector<std::string> numbers = parts_of(lines[2], ' '), local = parts_of(lines[3], ' '),
                                 place = parts_of(lines[4], ' ');
  if (numbers.size() != 3 || local.size() != 3 || place.size() != 3) return std::nullopt;
  Hello hello;
  hello.run = lines[1];
  hello.host = local[0];
  hello.name = place[0];
  hello.address = place[1];
  hello.token = lines[5];
  const bool is_sound = read_number(numbers[0], 0, kMostRanks - 1, hello.rank) &&
                        read_number(numbers[1], 1, kMostRanks, hello.ranks) &&
                        read_number(numbers[2], 1, INT32_MAX, hello.process) &&
                        read_number(local[1], 0, kMostRanks - 1, hello.local_rank) &&
                        read_number(local[2], 1, kMostRanks, hello.local_ranks) &&
                        read_number(place[2], 0, 65535, hello.port) && is_name(hello.host) &&
                        is_name(hello.name) && is_name(hello.address);
  return is_sound ? std::optional(hello) : std::nullopt;
}

std::string Host::text() const {
  return fmt::format("{} ({})", name, address);
}

std::string Roster::text() const {
  std::string text = secret;
  for (const Host& host : hosts)
    text += fmt::format("\n{} {} {} {} {}", host.id, host.name, host.address, host.port,
                        fmt::join(host.ranks, ","));
  return text;
}

std::optional<Roster> Roster::parse(const std::string& text, int ranks) {
  const std::vector<std::string> lines = parts_of(text, '\n');
  Roster roster;
  roster.secret = lines[0];
  std::vector<int> all;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::optional<Host> host = parse_host(lines[i], ranks);
    if (!host) return std::nullopt;
    roster.hosts.push_back(*host);
    all.insert(all.end(), host->ranks.begin(), host->ranks.end());
  }
  std::ranges::sort(all);
  const bool has_each_once = std::ssize(all) == ranks && std::ranges::adjacent_find(all) == all.end();
  return has_each_once ? std::optional(roster) : std::nullopt;
}

int Roster::host_of(int rank) const {
  const auto has_rank = [&](const Host& host) {
    return std::ranges::find(host.ranks, rank) != host.ranks.end();
  };
  return static_cast<int>(std::ranges::find_if(hosts, has_rank) - hosts.begin());
}

Roster roster_of(const std::vector<Hello>& all) {
  Roster roster{new_secret(), {}};
  for (const Hello& one : all) {
    auto host = std::ranges::find(roster.hosts, one.host, &Host::id);
    if (host == roster.hosts.end()) {
      roster.hosts.push_back({one.host, one.name, one.address, 0, {}});
      host = roster.hosts.end() - 1;
      host->ranks.assign(static_cast<size_t>(one.local_ranks), -1);
    }
    const auto place = static_cast<size_t>(one.local_rank);
    if (std::ssize(host->ranks) != one.local_ranks || place >= host->ranks.size() || host->ranks[place] >= 0)
      throw RunError(fmt::format(
          "rank {} says that it is number {} of {} on host {}, which other ranks say otherwise: do two "
          "hosts have one name, or did several launchers start ranks on one host?",
          one.rank, one.local_rank, one.local_ranks, host->text()));
    host->ranks[place] = one.rank;
    if (one.local_rank == 0) host->port = one.port;
  }
  for (const Host& host : roster.hosts)
    if (const auto missing = std::ranges::find(host.ranks, -1); missing != host.ranks.end())
      throw RunError(fmt::format("host {} should have {} ranks, and number {} is none of this run's",
                                 host.text(), host.ranks.size(), missing - host.ranks.begin()));
  return roster;
}

}  // namespace hydrac::runtime
