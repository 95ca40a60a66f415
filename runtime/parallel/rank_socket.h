// A connection between two ranks: short messages, and the word that the other end is gone. Within a host it
// is a Unix socket, between hosts one of TCP.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/parallel/tcp.h"

namespace hydrac::runtime {

struct RankMessage {
  enum class Kind : char {
    closed = 0,     // the other end is gone, or is none of ours; the text says why where it is known
    hello = 'h',    // from a rank that comes: Hello
    roster = 'r',   // from rank 0 to the ranks of several hosts: Roster
    link = 'l',     // from the first rank of a host to another one's: the roster's secret, its place there
    board = 'b',    // from the first rank of a host, with the file of the shared memory
    failed = 'f',   // a rank cannot go on: why
    refused = 'i',  // likewise, because its input cannot be used
    done = 'd',     // a rank has finished and is going to leave
  } kind = Kind::closed;
  std::string text;
  int file = -1;  // the receiver's
};

class RankSocket {
 public:
  RankSocket() = default;
  explicit RankSocket(int file) : file_(file) {}
  ~RankSocket();
  RankSocket(RankSocket&& other) noexcept : file_(other.file_), is_tcp_(other.is_tcp_) { other.file_ = -1; }
  RankSocket& operator=(RankSocket&& other) noexcept;

  // The meeting point of the ranks of one run, a name that only this user's processes reach: nothing of it is
  // in a file system. InputError when another run has it.
  static RankSocket listen(const std::string& meeting);
  // Tries for `seconds`. RunError when nobody listens.
  static RankSocket connect(const std::string& meeting, double seconds);
  // Of another user's process: none.
  std::optional<RankSocket> accept() const;

  // Likewise where ranks of other hosts come.
  static RankSocket listen_tcp(const Endpoint& endpoint);
  static RankSocket of_tcp(int connection);

  // False when the other end is gone; text beyond a few KiB (of TCP: 256) is cut.
  bool send(RankMessage::Kind kind, std::string_view text = "", int file = -1) const;
  RankMessage receive() const;  // waits

  int file() const { return file_; }
  // Whoever takes the file closes it.
  int release() { return std::exchange(file_, -1); }

 private:
  bool send_frame(RankMessage::Kind kind, std::string_view text) const;
  RankMessage receive_frame() const;

  int file_ = -1;
  bool is_tcp_ = false;
};

}  // namespace hydrac::runtime
