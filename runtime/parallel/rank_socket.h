// A connection between two ranks of one machine: short messages, and the word that the other end is gone.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hydrac::runtime {

struct RankMessage {
  enum class Kind : char {
    closed = 0,    // the other end is gone
    hello = 'h',   // from a rank that comes: its number, the ranks that it expects, its process
    board = 'b',   // from rank 0, with the file of the shared memory
    failed = 'f',  // a rank cannot go on: why
    done = 'd',    // a rank has finished and is going to leave
  } kind = Kind::closed;
  std::string text;
  int file = -1;  // the receiver's
};

class RankSocket {
 public:
  RankSocket() = default;
  explicit RankSocket(int file) : file_(file) {}
  ~RankSocket();
  RankSocket(RankSocket&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  RankSocket& operator=(RankSocket&& other) noexcept;

  // The meeting point of the ranks of one run, a name that only this user's processes reach: nothing of it is
  // in a file system. InputError when another run has it.
  static RankSocket listen(const std::string& meeting);
  // Tries for `seconds`. RunError when nobody listens.
  static RankSocket connect(const std::string& meeting, double seconds);
  // Of another user's process: none.
  std::optional<RankSocket> accept() const;

  // False when the other end is gone; text beyond a few KiB is cut.
  bool send(RankMessage::Kind kind, std::string_view text = "", int file = -1) const;
  RankMessage receive() const;  // waits

  int file() const { return file_; }

 private:
  int file_ = -1;
};

}  // namespace hydrac::runtime
