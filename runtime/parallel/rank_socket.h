// A connection between two ranks that carries short messages and notices when the other end is gone. It is a
// Unix socket within a host, and TCP between hosts.
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
    pulse = 'p',    // rank 0 asks whether a rank goes on, and the rank answers: Pulse
  } kind = Kind::closed;
  std::string text;
  int file = -1;  // the receiver's
};

// Limit for a message that has begun, also on a busy machine.
inline constexpr double kSecondsOfAMessage = 20;

class RankSocket {
 public:
  RankSocket() = default;
  explicit RankSocket(int file) : file_(file) {}
  ~RankSocket();
  RankSocket(RankSocket&& other) noexcept : file_(other.file_), is_tcp_(other.is_tcp_) { other.file_ = -1; }
  RankSocket& operator=(RankSocket&& other) noexcept;

  // The rendezvous of the ranks of one run: an abstract name, which is not in a file system and which only
  // this user's processes can use. InputError if another run has it.
  static RankSocket listen(const std::string& meeting);
  // Tries for `seconds`. RunError when nobody listens.
  static RankSocket connect(const std::string& meeting, double seconds);
  // None where nobody has come, and of another user's process. Does not wait.
  std::optional<RankSocket> accept() const;

  // Likewise where ranks of other hosts come.
  static RankSocket listen_tcp(const Endpoint& endpoint);
  static RankSocket of_tcp(int connection);

  // False when the other end is gone; text beyond a few KiB (of TCP: 256) is cut.
  bool send(RankMessage::Kind kind, std::string_view text = "", int file = -1) const;
  // Waits for a message. One that has begun and is not whole some seconds later is the end of the connection.
  RankMessage receive() const;
  // The message once it is complete, without blocking; `begun` keeps a partial one. A message of more than
  // `most` bytes closes the connection.
  std::optional<RankMessage> receive_part(std::string& begun, size_t most) const;

  int file() const { return file_; }
  // Whoever takes the file closes it.
  int release() { return std::exchange(file_, -1); }

 private:
  bool send_frame(RankMessage::Kind kind, std::string_view text) const;
  std::optional<RankMessage> receive_frame(std::string& begun, size_t most) const;
  std::optional<RankMessage> receive_packet() const;

  int file_ = -1;
  bool is_tcp_ = false;
};

}  // namespace hydrac::runtime
