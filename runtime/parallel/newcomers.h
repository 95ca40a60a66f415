// Those who have connected and not yet said who they are. Anybody can reach a port, so all are read at once:
// none of them keeps a rank waiting, and each has a deadline.
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
  // Lets in who is at the door, reads what has come, and gives the next one who has said something. Does not
  // wait. Who takes too long, or came first where too many say nothing, is sent away.
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
