// Chat templates that lie beside a tokenizer, and the format of hydrac's that writes the same.
#include "spec/hugging_face/chat_template.h"

#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "support.h"

namespace hydrac::spec {
namespace {

using nlohmann::json;

class ChatTemplates : public testing::Test {
 protected:
  ChatFormat like_in(const json& config) {
    folder_.write("tokenizer_config.json", config.dump());
    return format_like(*runtime::find_jinja_template(folder_.path("tokenizer.json")));
  }
  ChatFormat like(const std::string& jinja, const std::string& bos = "<s>", const std::string& eos = "</s>") {
    return like_in({{"chat_template", jinja}, {"bos_token", bos}, {"eos_token", {{"content", eos}}}});
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
    EXPECT_EQ(like(chatml), ChatFormat::chatml) << chatml;
  EXPECT_EQ(like("{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + "
                 "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}",
                 "<|begin_of_text|>"),
            ChatFormat::llama3);
  EXPECT_EQ(
      like("{{ bos_token }}{% for message in messages %}"
           "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Turns!') }}"
           "{% endif %}{% if message['role'] == 'user' %}{{ '[INST]' + message['content'] + '[/INST]' }}"
           "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}"
           "{% else %}{{ raise_exception('Roles!') }}{% endif %}{% endfor %}"),
      ChatFormat::mistral);
}

TEST_F(ChatTemplates, AreNotKnownWhereTheyWriteSomethingElse) {
  for (const std::string& jinja :
       {"{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\\nYou are Smol.<|im_end|>\\n' }}{% endif %}" +
            kTurn + "{% endfor %}",
        std::string("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
                    "message['content'] | trim + "
                    "'<|im_end|>\\n'}}{% endfor %}"),
        "{% for message in messages %}{% if message.role == 'assistant' %}{{ '<think>' }}{% endif %}" +
            kTurn + "{% endfor %}",
        // A space between two tags is one, where a line's indentation is none.
        std::string(
            "{% for message in messages %}{{'<|im_start|>'}} {% if true %}{{ message['role'] + '\\n' + "
            "message['content'] + '<|im_end|>\\n'}}{% endif %}{% endfor %}"),
        "{% for message in messages | reject('x') %}" + kTurn + "{% endfor %}"})
    EXPECT_EQ(like(jinja), ChatFormat::none) << jinja;
}

TEST_F(ChatTemplates, AreFoundInTheFolder) {
  folder_.write(
      "tokenizer_config.json",
      json{{"eos_token", "</s>"},
           {"bos_token", {{"content", "<s>"}}},
           {"chat_template",
            {{{"name", "tool_use"}, {"template", "tools"}}, {{"name", "default"}, {"template", kChatMl}}}}}
          .dump());
  const std::string tokenizer = folder_.path("tokenizer.json");
  const auto found = runtime::find_jinja_template(tokenizer);
  EXPECT_EQ(found->source, kChatMl);
  EXPECT_EQ(found->with_tools, "tools");
  EXPECT_EQ(found->tokens, (std::map<std::string, std::string>{{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
  EXPECT_TRUE(found->shown_as.ends_with("tokenizer_config.json: chat_template default")) << found->shown_as;
  EXPECT_EQ(runtime::find_jinja_template(tokenizer, "tool_use")->source, "tools");
  EXPECT_EQ(runtime::find_jinja_template(tokenizer, folder_.write("mine.jinja", "mine"))->source, "mine");
  folder_.write("chat_template.jinja", "{{ messages }}");
  EXPECT_EQ(runtime::find_jinja_template(tokenizer)->source, "{{ messages }}");
  EXPECT_FALSE(runtime::find_jinja_template("byte"));
  try {
    runtime::find_jinja_template(tokenizer, "rag");
    ADD_FAILURE() << "a template of that name is there";
  } catch (const runtime::InputError& error) {
    EXPECT_EQ(error.what(), "data.chat_template_jinja: the folder of " + tokenizer +
                                " has chat templates called default, tool_use, none called \"rag\"; a file's "
                                "name ends in .jinja");
  }
}

TEST_F(ChatTemplates, BesideTheTokenizerNeedNoKey) {
  folder_.write("tokenizer_config.json", json{{"chat_template", "{{ messages }}"}}.dump());
  const std::string tokenizer = "data.tokenizer=" + folder_.path("tokenizer.json");
  EXPECT_EQ(good(kSmall, {"data.format=chat", tokenizer}).data.chat_template, ChatFormat::own);
  EXPECT_EQ(good(kSmall, {"data.format=chat", tokenizer, "data.chat_template=none"}).data.chat_template,
            ChatFormat::none);
  EXPECT_EQ(good(kSmall, {tokenizer}).data.chat_template, ChatFormat::none);
  EXPECT_EQ(good(kSmall, {"data.format=chat", "data.chat_template_jinja=mine.jinja"}).data.chat_template,
            ChatFormat::own);
}

TEST_F(ChatTemplates, TakeVariablesOfAnyKind) {
  const Spec spec = good(
      kSmall, {"data.format=chat", "data.chat_template_jinja=mine.jinja",
               "data.chat_template_kwargs={enable_thinking: false, effort: low, n: 3, all: [1.5, {a: null}]}",
               "data.fields={instruction: question}"});
  EXPECT_EQ(
      spec.data.chat_template_kwargs,
      (NamedValues{
          {"enable_thinking", "false"}, {"effort", "\"low\""}, {"n", "3"}, {"all", "[1.5,{\"a\":null}]"}}));
  EXPECT_EQ(spec.data.fields, (NamedValues{{"instruction", "\"question\""}}));
}

// Unterminated and odd Jinja is never known, and never an error.
TEST_F(ChatTemplates, MayBeAnything) {
  for (const char* jinja :
       {"", "{", "{%", "{{ 'a", "{# ", "{% if %}", "{% endif %}", "{% else %}{% endif %}", "{{}}", "{{ ( }}",
        "{% for %}", "{%- -%}", "{{ '\\' }}", "{% endfor %}{% elif x %}"})
    EXPECT_EQ(like(std::string(jinja)), ChatFormat::none) << jinja;
}

}  // namespace
}  // namespace hydrac::spec
