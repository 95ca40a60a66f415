// The chat template that lies beside a tokenizer.json, and which of hydrac's formats writes the same. It is
// Jinja, a program that comes with a model, and is compared, not run.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/enums.h"
#include "spec/jinja_form.h"

namespace hydrac::spec {

class OwnChatTemplate {
 public:
  // The template in the folder of `tokenizer`, the path of a tokenizer.json: chat_template.jinja, else the
  // chat_template of tokenizer_config.json. Nothing if there is none that can be read.
  static std::optional<OwnChatTemplate> beside(const std::string& tokenizer);

  const std::string& file() const { return file_; }
  // The format that is known to write the same; none where hydrac does not know the template.
  ChatFormat same() const;
  // The format that writes the most like it; none where each writes other special tokens.
  ChatFormat nearest() const;
  // Its difference from `format` as far as it can be told without running it, for people: "it writes
  // \"...\"".
  std::string difference_from(ChatFormat format) const;

 private:
  OwnChatTemplate(std::string file, std::vector<JinjaPart> form);
  bool writes(std::string_view marker) const;

  std::string file_;
  std::vector<JinjaPart> form_;
  std::vector<std::string> texts_;  // that it may write by itself, where there are no tools
};

}  // namespace hydrac::spec
