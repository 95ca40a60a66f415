#include "runtime/text/chat_template.h"
#include "runtime/base/quote.h"

#include <fmt/format.h>

#include <stdexcept>

#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

constexpr std::string_view kSystem = "system", kUser = "user", kAssistant = "assistant";

void require_role(const ChatMessage& message) {
  if (message.role == kSystem || message.role == kUser || message.role == kAssistant) return;
  throw InputError(fmt::format("a role is system, user or assistant, not {}", in_quotes(message.role)));
}

// Pieces in order, neighbours of one kind joined.
class Pieces {
 public:
  void add(std::string_view text, ChatPiece::Kind kind = ChatPiece::Kind::frame) {
    if (list_.empty() || list_.back().kind != kind) list_.push_back({"", kind});
    list_.back().text += text;
  }
  std::vector<ChatPiece> take() { return std::move(list_); }

 private:
  std::vector<ChatPiece> list_;
};

// <|im_start|>user\nHello<|im_end|>\n
class ChatMl : public ChatTemplate {
 public:
  std::vector<std::string_view> special_tokens() const override { return {kStart, kEnd}; }
  std::string_view reply_end() const override { return kEnd; }
  std::string reply_begin() const override { return fmt::format("{}{}\n", kStart, kAssistant); }

  std::vector<ChatPiece> render(std::span<const ChatMessage> messages) const override {
    Pieces pieces;
    begin(messages, pieces);
    for (const ChatMessage& message : messages) {
      require_role(message);
      add(message, pieces);
    }
    return pieces.take();
  }

 protected:
  static constexpr std::string_view kStart = "<|im_start|>", kEnd = "<|im_end|>";

  virtual void begin(std::span<const ChatMessage>, Pieces&) const {}

  static void add(const ChatMessage& message, Pieces& pieces) {
    pieces.add(fmt::format("{}{}\n", kStart, message.role));
    pieces.add(fmt::format("{}{}", message.content, kEnd), message.kind());
    pieces.add("\n");
  }
};

// ChatML that begins with a system message, Qwen 2.5's own where there is none.
class Qwen final : public ChatMl {
  void begin(std::span<const ChatMessage> messages, Pieces& pieces) const override {
    if (messages.empty() || messages[0].role != kSystem)
      add({std::string(kSystem), "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
          pieces);
  }
};

// Without whitespace around it, as Jinja's filter `trim` leaves it.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// <|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>
class Llama3 final : public ChatTemplate {
 public:
  std::vector<std::string_view> special_tokens() const override {
    return {kBegin, kHeader, kHeaderEnd, kEnd};
  }
  std::string_view reply_end() const override { return kEnd; }
  std::string reply_begin() const override {
    return fmt::format("{}{}{}\n\n", kHeader, kAssistant, kHeaderEnd);
  }

  std::vector<ChatPiece> render(std::span<const ChatMessage> messages) const override {
    Pieces pieces;
    pieces.add(kBegin);
    for (const ChatMessage& message : messages) {
      require_role(message);
      pieces.add(fmt::format("{}{}{}\n\n", kHeader, message.role, kHeaderEnd));
      pieces.add(fmt::format("{}{}", trimmed(message.content), kEnd), message.kind());
    }
    return pieces.take();
  }

 private:
  static constexpr std::string_view kBegin = "<|begin_of_text|>", kHeader = "<|start_header_id|>",
                                    kHeaderEnd = "<|end_header_id|>", kEnd = "<|eot_id|>";
};

// <s>[INST]Hello[/INST]Hi</s>, as of Mistral Nemo.
class Mistral final : public ChatTemplate {
 public:
  std::vector<std::string_view> special_tokens() const override {
    return {"<s>", "</s>", "[INST]", "[/INST]"};
  }
  std::string_view reply_end() const override { return "</s>"; }
  std::string reply_begin() const override { return ""; }

  std::vector<ChatPiece> render(std::span<const ChatMessage> messages) const override {
    Pieces pieces;
    pieces.add("<s>");
    for (size_t i = 0; i < messages.size(); ++i) {
      const ChatMessage& message = messages[i];
      require_role(message);
      if (message.role == kSystem)
        throw InputError("the mistral template has no place for a system message: begin the user's with it");
      if (message.role != (i % 2 == 0 ? kUser : kAssistant))
        throw InputError("in the mistral template user and assistant take turns, the user first");
      const bool is_users = message.role == kUser;
      if (is_users) pieces.add("[INST]");
      pieces.add(message.content, message.kind());
      pieces.add(is_users ? "[/INST]" : "</s>", is_users ? ChatPiece::Kind::frame : message.kind());
    }
    return pieces.take();
  }
};

}  // namespace

const ChatTemplate& ChatTemplate::named(std::string_view name) {
  static const ChatMl chatml;
  static const Qwen qwen;
  static const Llama3 llama3;
  static const Mistral mistral;
  if (name == "chatml") return chatml;
  if (name == "qwen") return qwen;
  if (name == "llama3") return llama3;
  if (name == "mistral") return mistral;
  throw std::logic_error(fmt::format("no chat template is called {}", name));
}

}  // namespace hydrac::runtime
