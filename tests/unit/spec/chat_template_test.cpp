// Chat templates that lie beside a tokenizer: which of hydrac's formats writes the same, and what differs.
#include "spec/chat_template.h"

#include <nlohmann/json.hpp>

#include "support.h"

namespace hydrac::spec {
namespace {

using nlohmann::json;

class ChatTemplates : public testing::Test {
 protected:
  OwnChatTemplate with(const json& config) {
    folder_.write("tokenizer_config.json", config.dump());
    return *OwnChatTemplate::beside(folder_.path("tokenizer.json"));
  }
  OwnChatTemplate of(const std::string& jinja, const std::string& bos = "<s>",
                     const std::string& eos = "</s>") {
    return with({{"chat_template", jinja}, {"bos_token", bos}, {"eos_token", {{"content", eos}}}});
  }
  Folder folder_;
};

const std::string kPrompt = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
const std::string kTurn =
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}";
const std::string kChatMl = "{% for message in messages %}" + kTurn + "{% endfor %}" + kPrompt;

TEST_F(ChatTemplates, AreKnownHoweverTheyAreWritten) {
  for (const std::string& chatml :
       {kChatMl,
        // Quotes, names, a line end that is one, layout, and what only prepares the generation prompt.
        "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}" +
            kChatMl,
        std::string(
            "{% for m in messages %}{{\"<|im_start|>\" + m.role + \"\n\" + m.content + '<|im_end|>\n'}}"
            "{% endfor %}"),
        std::string("{%- for message in messages %}\n    {{- '<|im_start|>' + message.role + '\\n' }}\n"
                    "    {{- message.content -}}\n    <|im_end|>\n{% endfor %}\n"),
        std::string("{# ChatML #}\n{% for message in messages %}\n<|im_start|>{{ message['role'] }}\n"
                    "{% generation %}{{ message['content'] }}{% endgeneration %}<|im_end|>\n{% endfor %}\n")})
    EXPECT_EQ(of(chatml).same(), ChatFormat::chatml) << chatml;
  EXPECT_EQ(of("{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + "
               "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}",
               "<|begin_of_text|>")
                .same(),
            ChatFormat::llama3);
  EXPECT_EQ(of("{{ bos_token }}{% for message in messages %}"
               "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Turns!') }}"
               "{% endif %}{% if message['role'] == 'user' %}{{ '[INST]' + message['content'] + '[/INST]' }}"
               "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}"
               "{% else %}{{ raise_exception('Roles!') }}{% endif %}{% endfor %}")
                .same(),
            ChatFormat::mistral);
}

TEST_F(ChatTemplates, AreNotKnownWhereTheyWriteSomethingElse) {
  const auto expect = [&](const std::string& jinja, ChatFormat nearest, const std::string& difference) {
    const OwnChatTemplate own = of(jinja);
    EXPECT_EQ(own.same(), ChatFormat::none) << jinja;
    EXPECT_EQ(own.nearest(), nearest) << jinja;
    EXPECT_EQ(own.difference_from(nearest == ChatFormat::none ? ChatFormat::chatml : nearest), difference);
  };
  expect(
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
      "{{ '<|im_start|>system\\nYou are Smol.<|im_end|>\\n' }}{% endif %}" +
          kTurn + "{% endfor %}",
      ChatFormat::chatml, "it writes \"<|im_start|>system\\nYou are Smol.<|im_end|>\\n\"");
  expect(
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + "
      "'<|im_end|>\\n'}}{% endfor %}",
      ChatFormat::chatml, "it cuts white space around what is said");
  // What is written for tools is none of a conversation without them.
  expect(
      "{% if tools %}{{ 'Tools:' }}{% endif %}{% for message in messages %}{% if message.role == 'assistant' "
      "%}"
      "{{ '<think>' }}{% endif %}" +
          kTurn + "{% endfor %}",
      ChatFormat::chatml, "it writes \"<think>\"");
  expect("{% for message in messages %}{{ bos_token + message.role + message.content }}{% endfor %}",
         ChatFormat::none, "it writes \"<s>\", and it never writes \"<|im_start|>\", \"<|im_end|>\"");
  // A space between two tags is one, where a line's indentation is none.
  expect(
      "{% for message in messages %}{{'<|im_start|>'}} {% if true %}{{ message['role'] + '\\n' + "
      "message['content'] + '<|im_end|>\\n'}}{% endif %}{% endfor %}",
      ChatFormat::chatml, "it writes \"<|im_start|> \"");
  expect("{% for message in messages | reject('x') %}" + kTurn + "{% endfor %}", ChatFormat::chatml,
         "it writes the same words in a way that hydrac does not know");
}

// Which begins with a system message where a conversation has none.
TEST_F(ChatTemplates, OfQwenDifferFromChatMl) {
  EXPECT_EQ(of(kChatMl).difference_from(ChatFormat::qwen),
            "it never writes \"You are Qwen, created by Alibaba Cloud. You are a helpful assistant.\"");
  const OwnChatTemplate qwen =
      of("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
         "{{ '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
         "assistant.<|im_end|>\\n' }}{% endif %}" +
         kTurn + "{% endfor %}");
  EXPECT_EQ(qwen.same(), ChatFormat::qwen);
  EXPECT_TRUE(
      qwen.difference_from(ChatFormat::chatml).starts_with("it writes \"<|im_start|>system\\nYou are Qwen,"));
}

TEST_F(ChatTemplates, AreTheFoldersDefault) {
  EXPECT_EQ(
      with({{"chat_template",
             {{{"name", "tool_use"}, {"template", "x"}}, {{"name", "default"}, {"template", kChatMl}}}}})
          .same(),
      ChatFormat::chatml);
  folder_.write("chat_template.jinja", "{{ messages }}");
  const auto own = OwnChatTemplate::beside(folder_.path("tokenizer.json"));
  EXPECT_EQ(own->same(), ChatFormat::none);
  EXPECT_TRUE(own->file().ends_with("chat_template.jinja"));
  EXPECT_FALSE(OwnChatTemplate::beside("byte"));
}

TEST_F(ChatTemplates, ThatAreKnownNeedNoKey) {
  folder_.write("tokenizer_config.json", json{{"chat_template", kChatMl}}.dump());
  const std::string tokenizer = "data.tokenizer=" + folder_.path("tokenizer.json");
  EXPECT_EQ(good(kSmall, {"data.format=chat", tokenizer}).data.chat_template, ChatFormat::chatml);
  EXPECT_EQ(good(kSmall, {"data.format=chat", tokenizer, "data.chat_template=none"}).data.chat_template,
            ChatFormat::none);
  EXPECT_EQ(good(kSmall, {tokenizer}).data.chat_template, ChatFormat::none);
}

// Unterminated and odd Jinja is never known, and never an error.
TEST_F(ChatTemplates, MayBeAnything) {
  for (const char* jinja :
       {"", "{", "{%", "{{ 'a", "{# ", "{% if %}", "{% endif %}", "{% else %}{% endif %}", "{{}}", "{{ ( }}",
        "{% for %}", "{%- -%}", "{{ '\\' }}", "{% endfor %}{% elif x %}"})
    EXPECT_EQ(of(jinja).same(), ChatFormat::none) << jinja;
}

}  // namespace
}  // namespace hydrac::spec
