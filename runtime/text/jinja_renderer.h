// Chat templates as transformers runs them: by jinja2's sandbox, in a process of python3 that has no files,
// no network, and limits of time and memory.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/jinja_template.h"

namespace hydrac::runtime {

// Lists of conversations that are sent are rendered while the caller does other things, each by another
// process, which starts when it is needed.
class JinjaRenderer {
 public:
  // `variables`: a JSON object, which the template knows by their names beside the messages. `date`: today's,
  // for strftime_now, as 2024-07-26.
  JinjaRenderer(JinjaTemplate source, const std::string& variables, std::string date);
  ~JinjaRenderer();

  // A list of {messages, tools, documents, variables, replies, prompt}: `replies` are the indices of messages
  // whose place is asked for, `prompt` adds the beginning of another reply.
  void send(const nlohmann::ordered_json& conversations);

  struct Text {
    std::string text;
    std::vector<std::pair<size_t, size_t>> replies;  // where they stand, in bytes
    bool has_blocks =
        false;          // `replies` are the template's {% generation %} blocks, whichever were asked for
    std::string error;  // instead, why there is no text
  };
  // The texts of the oldest list that was sent. InputError where the template cannot be compiled, or there
  // is no python3 with jinja2 ($HYDRAC_PYTHON names another one).
  std::vector<Text> receive();

  // Lists that are rendered side by side.
  size_t parallel() const { return helpers_.size(); }

 private:
  class Helper;
  JinjaTemplate source_;
  std::string settings_;
  std::vector<std::unique_ptr<Helper>> helpers_;  // lists take turns
  size_t sent_ = 0, received_ = 0;
};

}  // namespace hydrac::runtime
