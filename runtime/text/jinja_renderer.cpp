#include "runtime/text/jinja_renderer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <thread>

#include "runtime/base/child_process.h"
#include "runtime/error.h"
#include "runtime/json/json_input.h"
#include "runtime/text/jinja_script.h"

namespace hydrac::runtime {

namespace {

using nlohmann::json;

// A conversation takes less than a millisecond.
constexpr int kSeconds = 5;
constexpr int64_t kBytes = int64_t{2} << 30;
constexpr size_t kMostHelpers = 8;

[[noreturn]] void no_jinja(const std::string& why) {
  throw InputError(
      fmt::format("the model's chat template is run by jinja2, and {} {}: install it (apt-get install "
                  "python3-jinja2, or pip install "
                  "jinja2), or name a Python that has it in $HYDRAC_PYTHON; data.chat_template has formats "
                  "that need none",
                  python_program(), why));
}

}  // namespace

class JinjaRenderer::Helper {
 public:
  explicit Helper(const std::string& settings)
      : child_({python_program(), "-c", kJinjaScript}, {.input = kPipe, .output = kPipe}),
        output_(child_.error() == 0 ? ::fdopen(child_.take_output(), "r") : nullptr) {
    if (!output_) no_jinja("cannot be run");
    write_line(settings);
  }
  ~Helper() {
    if (output_) std::fclose(output_);
    std::free(line_);
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  // A process that has ended says so where its answer is read.
  void write_line(std::string line) {
    line += '\n';
    for (std::string_view rest = line; !rest.empty();) {
      const ssize_t written = write_to_pipe(child_.input(), rest.data(), rest.size());
      if (written > 0) rest.remove_prefix(static_cast<size_t>(written));
      if (written < 0 && errno != EINTR) return;
    }
  }

  json read_answer(const std::string& shown_as) {
    const ssize_t size = ::getline(&line_, &room_, output_);
    if (size <= 0 || line_[size - 1] != '\n') fail(shown_as);
    has_answered_ = true;
    return parse_json({line_, static_cast<size_t>(size)},
                      "the answer of the Python that renders chat templates");
  }

 private:
  [[noreturn]] void fail(const std::string& shown_as) {
    const ChildEnd end = child_.wait();
    if (end.signal == SIGVTALRM)
      throw InputError(fmt::format("{} takes longer than {} seconds", shown_as, kSeconds));
    if (!has_answered_ && end.signal == 0) no_jinja("cannot be run");
    throw InputError(fmt::format("{}: the Python that renders it {}", shown_as, describe(end)));
  }

  ChildProcess child_;
  std::FILE* output_;
  char* line_ = nullptr;
  size_t room_ = 0;
  bool has_answered_ = false;
};

JinjaRenderer::JinjaRenderer(JinjaTemplate source, const std::string& variables, std::string date)
    : source_(std::move(source)),
      helpers_(std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostHelpers)) {
  json all = source_.tokens;
  all.update(parse_json(variables, "data.chat_template_kwargs"));
  settings_ =
      json{{"source", source_.source}, {"with_tools", source_.with_tools}, {"shown_as", source_.shown_as},
           {"variables", all},         {"date", std::move(date)},          {"seconds", kSeconds},
           {"bytes", kBytes}}
          .dump();
}

JinjaRenderer::~JinjaRenderer() = default;

void JinjaRenderer::send(const nlohmann::ordered_json& conversations) {
  std::unique_ptr<Helper>& helper = helpers_[sent_++ % helpers_.size()];
  if (!helper) helper = std::make_unique<Helper>(settings_);
  helper->write_line(conversations.dump());
}

std::vector<JinjaRenderer::Text> JinjaRenderer::receive() {
  const json answer = helpers_[received_++ % helpers_.size()]->read_answer(source_.shown_as);
  if (const auto missing = answer.find("missing"); answer.is_object() && missing != answer.end())
    no_jinja("does not have it");
  if (answer.is_object()) throw InputError(answer.at("wrong").get<std::string>());
  std::vector<Text> texts;
  for (const json& entry : answer) {
    Text& text = texts.emplace_back();
    if (entry.contains("error")) {
      text.error = entry["error"].get<std::string>();
    } else if (entry.contains("unclear")) {
      text.error = fmt::format(
          "{}, so that hydrac cannot tell what is learned: data.train_on: last or all may be clear, and so "
          "is a copy of the "
          "template with {{% generation %}} and {{% endgeneration %}} around replies, which "
          "data.chat_template_jinja names",
          entry["unclear"].get<std::string>());
    } else {
      text.text = entry.at("text").get<std::string>();
      text.has_blocks = entry.at("blocks").get<bool>();
      text.replies = entry.at("replies").get<std::vector<std::pair<size_t, size_t>>>();
    }
  }
  return texts;
}

}  // namespace hydrac::runtime
