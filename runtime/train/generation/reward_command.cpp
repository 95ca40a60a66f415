#include "runtime/train/generation/reward_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "runtime/base/child_process.h"
#include "runtime/base/quote.h"
#include "runtime/error.h"
#include "runtime/log/monotonic.h"

namespace hydrac::runtime {

namespace {

constexpr size_t kMostOutput = size_t{1} << 20;

class Command {
 public:
  Command(const RewardCommand& command, std::string input)
      : name_(fmt::format("{}", fmt::join(command.words, " "))),
        input_(std::move(input)),
        timeout_(command.timeout_seconds),
        deadline_(monotonic_seconds() + command.timeout_seconds),
        // In a process group of its own, so that Ctrl-C on the terminal lets the step finish.
        child_(command.words, {.input = kPipe, .output = kPipe, .own_group = true}) {
    if (child_.error() != 0)
      throw RewardError(problem(fmt::format("cannot be started: {}", std::strerror(child_.error()))));
    // Input that the child does not read in time must not block this process.
    fcntl(child_.input(), F_SETFL, O_NONBLOCK);
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Runs it, and returns what it printed once it has ended well.
  std::string run() {
    std::string output;
    size_t written = 0;
    for (bool open = true; open;) {
      pollfd files[2] = {{child_.output(), POLLIN, 0}, {child_.input(), POLLOUT, 0}};
      const double left = require_time();
      if (poll(files, 2, static_cast<int>(std::ceil(std::min(left, 60.0) * 1e3))) < 0 && errno != EINTR)
        throw RewardError(problem(fmt::format("cannot be waited for: {}", std::strerror(errno))));
      if (files[1].revents != 0) write_some(written);
      if (files[0].revents != 0) open = read_some(output);
    }
    require_good_end();
    return output;
  }

  std::string problem(std::string_view what) const {
    return fmt::format("objective.reward.command, {}, {}", name_, what);
  }

 private:
  // A program that does not read all of its input may still print its numbers.
  void write_some(size_t& written) {
    const ssize_t n = write_to_pipe(child_.input(), input_.data() + written, input_.size() - written);
    if (n > 0) written += static_cast<size_t>(n);
    const bool failed = n < 0 && errno != EAGAIN && errno != EINTR;
    if (failed || written == input_.size()) child_.close_input();
  }

  // False at the end of its output.
  bool read_some(std::string& output) {
    char buffer[4096];
    const ssize_t n = read(child_.output(), buffer, sizeof buffer);
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    output.append(buffer, static_cast<size_t>(n));
    if (output.size() > kMostOutput) throw RewardError(problem("prints without end"));
    return n > 0;
  }

  void require_good_end() {
    std::optional<ChildEnd> end;
    while (!(end = child_.ended())) {
      require_time();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (end->code != 0) throw RewardError(problem(describe(*end)));
  }

  // Seconds left.
  double require_time() const {
    const double left = deadline_ - monotonic_seconds();
    if (left <= 0)
      throw RewardError(
          problem(fmt::format("has not ended after {} s (objective.reward.timeout)", timeout_)));
    return left;
  }

  const std::string name_, input_;
  const double timeout_, deadline_;
  ChildProcess child_;
};

std::optional<double> number_in(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t begin = line.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return std::nullopt;
  line = line.substr(begin, line.find_last_not_of(kSpace) + 1 - begin);
  double number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || end != line.data() + line.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

}  // namespace

std::string json_lines(std::span<const PromptReplies> prompts) {
  std::string text;
  for (const PromptReplies& prompt : prompts) {
    const nlohmann::ordered_json line = {{"prompt", prompt.prompt}, {"replies", prompt.replies}};
    text += line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  return text;
}

std::vector<double> rewards_of(const RewardCommand& command, std::string lines, size_t replies) {
  Command program(command, std::move(lines));
  const std::string output = program.run();
  std::vector<double> rewards;
  for (size_t begin = 0; begin < output.size();) {
    const size_t end = std::min(output.find('\n', begin), output.size());
    const std::string_view line = std::string_view(output).substr(begin, end - begin);
    const std::optional<double> number = number_in(line);
    if (!number)
      throw RewardError(program.problem(fmt::format("printed {} as line {}, which is no finite number",
                                                    in_quotes(line, 60), rewards.size() + 1)));
    // Sums of rewards and of their squares must stay finite.
    if (std::abs(*number) > static_cast<double>(std::numeric_limits<float>::max()))
      throw RewardError(program.problem(fmt::format("printed {} as line {}, and a reward is 3.4e38 at most",
                                                    in_quotes(line, 60), rewards.size() + 1)));
    rewards.push_back(*number);
    begin = end + 1;
  }
  if (rewards.size() != replies)
    throw RewardError(
        program.problem(fmt::format("printed {} numbers for {} replies", rewards.size(), replies)));
  return rewards;
}

}  // namespace hydrac::runtime
