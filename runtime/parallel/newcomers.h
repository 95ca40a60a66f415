// Connections that have not identified themselves yet. Anybody can reach a port, so all are read at once:
// none of them delays a rank, and each has a deadline.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "runtime/parallel/rank_socket.h"

namespace hydrac::runtime {

class Newcomers {
 public:
  struct Arrival {
    RankSocket socket;
    RankMessage message;  // its first one; closed: it is none of ours, and goes
  };

  // `door`: where they connect; must outlive this. RunError.
  explicit Newcomers(const RankSocket& door);
  ~Newcomers();
  Newcomers(const Newcomers&) = delete;
  Newcomers& operator=(const Newcomers&) = delete;

  // Can be read when next() has something to do.
  int file() const { return events_; }
  // Accepts waiting connections, reads what has arrived, and returns the next connection that has sent
  // something. Does not block. Closes connections that take too long, and the oldest silent ones if there are
  // too many.
  std::optional<Arrival> next();

 private:
  struct Newcomer {
    RankSocket socket;
    std::string begun;  // of its message
    double came = 0;
  };

  int let_in();
  std::optional<Arrival> read(int file);
  void send_late_ones_away();

  const RankSocket& door_;
  int events_ = -1;                  // an epoll
  std::map<int, Newcomer> waiting_;  // by file
};

}  // namespace hydrac::runtime
