// A port of TCP for a test whose programs are going to listen there.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <list>
#include <stdexcept>

namespace hydrac::test {

// A port of 127.0.0.1 that the system gives to nobody else while this lives. Whoever names it, and sets
// SO_REUSEADDR as runtime/parallel does, can listen at it all the same, because nobody listens here.
class ReservedPort {
 public:
  ReservedPort() : file_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (file_ < 0 || ::setsockopt(file_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        ::bind(file_, any, bytes) != 0 || ::getsockname(file_, any, &bytes) != 0)
      throw std::runtime_error("no port can be reserved");
    number_ = ntohs(address.sin_port);
  }
  ~ReservedPort() { ::close(file_); }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  int number() const { return number_; }

 private:
  int file_, number_ = 0;
};

// The number of one that is reserved as long as this program runs.
inline int reserve_port() {
  static std::list<ReservedPort> all;
  return all.emplace_back().number();
}

}  // namespace hydrac::test
