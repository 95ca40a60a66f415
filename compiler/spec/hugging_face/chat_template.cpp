#include "spec/hugging_face/chat_template.h"

#include <algorithm>

#include "runtime/data/hash.h"
#include "runtime/error.h"
#include "spec/hugging_face/jinja_form.h"

namespace hydrac::spec {

namespace {

using Names = std::map<std::string, std::string>;

// Templates that write as hydrac's formats do, in the spellings of many models.
struct KnownTemplate {
  ChatFormat format;
  std::string jinja;
  Names names = {};
};

const std::vector<KnownTemplate>& known_templates() {
  const std::string turn =
      "{{'<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n'}}";
  const std::string qwens =
      "{{'<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\\n'}}";
  const std::string header =
      "'<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + "
      "'<|eot_id|>'";
  const Names llamas = {{"bos_token", "<|begin_of_text|>"}};
  const std::string each = "{% for message in messages %}", end = "{% endfor %}";
  static const std::vector<KnownTemplate> known = {
      {ChatFormat::chatml, each + turn + end},
      {ChatFormat::qwen,
       "{% if messages[0].role == 'system' %}{{'<|im_start|>system\\n' + messages[0].content + "
       "'<|im_end|>\\n'}}"
       "{% else %}" +
           qwens + "{% endif %}" + each +
           "{% if (message.role == 'user') or (message.role == 'system' and not loop.first) or "
           "(message.role == 'assistant' and not message.tool_calls) %}" +
           turn + "{% endif %}" + end},
      {ChatFormat::qwen,
       each + "{% if loop.first and messages[0].role != 'system' %}" + qwens + "{% endif %}" + turn + end},
      {ChatFormat::llama3,
       "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = " + header +
           " %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{content}}" + end,
       llamas},
      {ChatFormat::llama3, "{{bos_token}}" + each + "{{" + header + "}}" + end, llamas},
      {ChatFormat::mistral,
       "{{bos_token}}" + each +
           "{% if message.role == 'user' %}{{'[INST]' + message.content + '[/INST]'}}"
           "{% elif message.role == 'assistant' %}{{message.content + eos_token}}{% endif %}" +
           end,
       {{"bos_token", "<s>"}, {"eos_token", "</s>"}}},
  };
  return known;
}

uint64_t hash_of(const std::vector<JinjaPart>& form) {
  runtime::Hash64 hash;
  for (const JinjaPart& part : form) hash.add(static_cast<uint64_t>(part.kind)).add(part.text);
  return hash.value();
}

// The same of long templates, mostly about tools: hash_of() their form.
struct LongTemplate {
  ChatFormat format;
  uint64_t hash;
};
constexpr LongTemplate kLongTemplates[] = {
    {ChatFormat::qwen, 0x60c55927b2cc6b89},    // Qwen2.5-Instruct
    {ChatFormat::chatml, 0xc2aa56649956f4de},  // Qwen3-Instruct-2507
};

}  // namespace

ChatFormat format_like(const runtime::JinjaTemplate& own) {
  Names names;
  for (const auto& [name, text] : own.tokens)
    if (name == "bos_token" || name == "eos_token") names[name] = text;
  const std::vector<JinjaPart> form = jinja_form(own.source, names);
  for (const KnownTemplate& known : known_templates()) {
    if (jinja_form(known.jinja, known.names) == form) return known.format;
  }
  const auto known = std::ranges::find(kLongTemplates, hash_of(form), &LongTemplate::hash);
  return known == std::end(kLongTemplates) ? ChatFormat::none : known->format;
}

std::optional<runtime::JinjaTemplate> own_template(const SpecKeys& spec) {
  try {
    return runtime::find_jinja_template(spec.data.tokenizer, spec.data.chat_template_jinja);
  } catch (const runtime::InputError&) {
    return runtime::JinjaTemplate{spec.data.chat_template_jinja, ""};
  }
}

}  // namespace hydrac::spec
