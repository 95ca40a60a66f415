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
  void add(std::string_view text, bool is_reply = false) {
    if (list_.empty() || list_.back().is_reply != is_reply) list_.push_back({"", is_reply});
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

  std::vector<ChatPiece> render(std::span<const ChatMessage> messages) const override {
    Pieces pieces;
    begin(messages, pieces);
    for (const ChatMessage& message : messages) {
      require_role(message);
      add(message.role, message.content, pieces);
    }
    return pieces.take();
  }

 protected:
  static constexpr std::string_view kStart = "<|im_start|>", kEnd = "<|im_end|>";

  virtual void begin(std::span<const ChatMessage>, Pieces&) const {}

  static void add(std::string_view role, std::string_view content, Pieces& pieces) {
    const bool is_reply = role == kAssistant;
    pieces.add(fmt::format("{}{}\n", kStart, role));
    pieces.add(fmt::format("{}{}", content, kEnd), is_reply);
    pieces.add("\n");
  }
};

// ChatML that begins with a system message, Qwen 2.5's own where there is none.
class Qwen final : public ChatMl {
  void begin(std::span<const ChatMessage> messages, Pieces& pieces) const override {
    if (messages.empty() || messages[0].role != kSystem)
      add(kSystem, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.", pieces);
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

  std::vector<ChatPiece> render(std::span<const ChatMessage> messages) const override {
    Pieces pieces;
    pieces.add(kBegin);
    for (const ChatMessage& message : messages) {
      require_role(message);
      pieces.add(fmt::format("{}{}{}\n\n", kHeader, message.role, kHeaderEnd));
      pieces.add(fmt::format("{}{}", trimmed(message.content), kEnd), message.role == kAssistant);
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
      if (message.role == kUser)
        pieces.add(fmt::format("[INST]{}[/INST]", message.content));
      else
        pieces.add(fmt::format("{}</s>", message.content), true);
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
