// TCP connections between the hosts of a run, one between the first ranks of each pair. They carry data that
// ranks of one host write into their shared memory and ranks of another read.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace hydrac::runtime {

class HostLinks {
 public:
  using Places = std::vector<std::span<std::byte>>;
  // Bytes for a host, and the place of the bytes that come back: as many as it sends.
  struct Exchange {
    Places out, in;
  };

  // `connections`: by host, -1 for this one; taken over. `names`: for messages.
  HostLinks(std::vector<int> connections, std::vector<std::string> names);
  ~HostLinks();
  HostLinks(const HostLinks&) = delete;
  HostLinks& operator=(const HostLinks&) = delete;

  // Exchanges with every other host at once; returns when everything is sent and received. Every host calls
  // it equally often. `of(host)`: the data for that host. False once `is_over()`, which is polled. RunError
  // if a connection is lost, or if another host expects another exchange.
  bool exchange(const std::function<Exchange(int host)>& of, const std::function<bool()>& is_over);

 private:
  std::vector<int> connections_;
  std::vector<std::string> names_;
  uint64_t number_ = 0;  // of the exchange
};

}  // namespace hydrac::runtime
