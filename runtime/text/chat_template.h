// Conversations as the text that chat models were trained on, in formats of hydrac's. A model's own template
// is Jinja, a program, which jinja_renderer.h has run.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::runtime {

// A stretch of a conversation's text, in order.
struct ChatPiece {
  enum class Kind {
    frame,  // the template's own text, and what is said to the model
    reply,  // what it is to learn to say, with the token that ends it
    masked  // what it is not to learn in any case
  };
  std::string text;
  Kind kind = Kind::frame;
};

struct ChatMessage {
  std::string role, content;
  std::optional<bool> learned = {};  // as the record says; else what the assistant says is

  ChatPiece::Kind kind() const {
    if (learned) return *learned ? ChatPiece::Kind::reply : ChatPiece::Kind::masked;
    return role == "assistant" ? ChatPiece::Kind::reply : ChatPiece::Kind::frame;
  }
};

class ChatTemplate {
 public:
  // The names that data.chat_template takes but none: "chatml", "llama3", "mistral", "qwen". Another name is
  // our own bug: std::logic_error.
  static const ChatTemplate& named(std::string_view name);

  virtual ~ChatTemplate() = default;

  // The tokens that the text is made of beside words: each must be one token of the tokenizer.
  virtual std::vector<std::string_view> special_tokens() const = 0;

  // The one of them that ends a reply.
  virtual std::string_view reply_end() const = 0;

  // The text that stands between a user's message and the reply.
  virtual std::string reply_begin() const = 0;

  // InputError for what the template has no place for: an unknown role, for mistral a system message or roles
  // that do not take turns.
  virtual std::vector<ChatPiece> render(std::span<const ChatMessage> messages) const = 0;
};

}  // namespace hydrac::runtime
