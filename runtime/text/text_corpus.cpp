#include "runtime/text/text_corpus.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "runtime/data/hash.h"
#include "runtime/data/item_loader.h"
#include "runtime/error.h"
#include "runtime/log/output.h"
#include "runtime/log/units.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/jinja_renderer.h"
#include "runtime/text/load_items.h"
#include "runtime/text/load_tokens.h"

namespace hydrac::runtime {

namespace {

CorpusOptions corpus_options(const DataSettings& settings, const std::vector<std::string>& patterns,
                             bool quiet) {
  CorpusOptions options;
  options.base = ".";
  options.patterns = patterns;
  options.text_key = settings.text_key;
  options.raw_uint16 = settings.raw_uint16;
  options.enough_tokens = settings.enough_tokens;
  if (options.enough_tokens == 0) options.cache_dir = settings.cache_dir;
  if (!quiet) {
    options.notice = [](const std::string& line) { print_text(stdout, line + "\n"); };
    options.progress = [](const TokenizeProgress& p) {
      print_text(stdout, fmt::format("tokenizing: {} of {}, {} tokens\n", human_bytes(p.bytes_done),
                                     human_bytes(p.bytes_total), human_count(static_cast<double>(p.tokens))));
    };
  }
  return options;
}

DataContent content_of(const ItemStore& items) {
  const std::span<const MarkedToken> tokens = items.tokens();
  const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  return {fmt::format("{} items of {} tokens", items.size(), tokens.size()), Hash64().add(bytes).value()};
}

ItemFormat item_format(const DataSettings& settings) {
  ItemFormat format;
  format.names = {settings.text_key, settings.fields};
  format.chat_template = settings.chat_template;
  if (settings.chat_template == "own") {
    format.jinja = find_jinja_template(settings.tokenizer, settings.chat_template_jinja);
    if (!format.jinja)
      throw InputError(fmt::format(
          "data.chat_template: own runs the template beside the tokenizer, and the folder of {} has none",
          settings.tokenizer));
  }
  format.plain_format = settings.plain_chat_template;
  format.variables = settings.chat_template_kwargs;
  format.date = settings.chat_date;
  format.replies_only = settings.replies_only;
  format.last_only = settings.last_only;
  format.most_prompt_tokens = settings.most_prompt_tokens;
  format.pairs = settings.pairs > 0;
  return format;
}

// The token that ends a reply of the settings' template; empty if it has none.
std::string turn_end(const DataSettings& settings) {
  if (!settings.items || settings.chat_template == "none") return "";
  const ItemFormat format = item_format(settings);
  const std::string name = format.jinja ? format.plain_format : format.chat_template;
  if (!name.empty()) return std::string(ChatTemplate::named(name).reply_end());
  JinjaRenderer renderer(*format.jinja, format.variables, format.date);
  constexpr const char* kReply = "a reply like no other";
  renderer.send(nlohmann::ordered_json::parse(fmt::format(
      R"([{{"messages": [{{"role": "user", "content": "Hi"}}, {{"role": "assistant", "content": "{}"}}], "replies": []}}])",
      kReply)));
  const std::string text = renderer.receive()[0].text;
  const size_t reply = text.rfind(kReply);
  if (reply == std::string::npos) return "";
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace, reply + std::string_view(kReply).size());
  return begin == std::string::npos ? "" : text.substr(begin, text.find_first_of(kSpace, begin) - begin);
}

// Its loader and identity.
void fill_item_corpus(Corpus& corpus, const DataSettings& settings, bool quiet) {
  const ItemFormat format = item_format(settings);
  const auto load = [&](const std::vector<std::string>& patterns) {
    CorpusOptions options = corpus_options(settings, patterns, quiet);
    options.is_cut = &corpus.is_cut;
    return load_items(options, format, *corpus.tokenizer);
  };
  const std::shared_ptr<const ItemStore> train = load(settings.path);
  const std::shared_ptr<const ItemStore> val = settings.val_path.empty()            ? nullptr
                                               : settings.val_path == settings.path ? train
                                                                                    : load(settings.val_path);
  corpus.identity = {corpus.tokenizer->fingerprint(), content_of(*train), std::nullopt};
  if (val) corpus.identity.val = content_of(*val);
  ItemDataset dataset =
      val ? ItemDataset::separate(train, val) : ItemDataset::split(train, settings.val_fraction);
  const auto loader = std::make_shared<ItemLoader>(
      std::move(dataset), ItemLoaderOptions{settings.batch_size, settings.sequence_len, settings.seed,
                                            settings.shuffle, settings.cut_long_items, settings.document_mask,
                                            settings.pairs, settings.curriculum});
  if (!quiet) print_text(stdout, loader->description() + "\n");
  corpus.loader = loader;
}

}  // namespace

std::vector<std::string> chat_prompts(const DataSettings& settings, const std::vector<std::string>& said) {
  const ItemFormat format = item_format(settings);
  std::vector<std::string> prompts;
  if (!format.jinja) {
    const ChatTemplate& ours = ChatTemplate::named(format.chat_template);
    for (const std::string& text : said) {
      std::string& prompt = prompts.emplace_back();
      for (const ChatPiece& piece : ours.render(std::vector<ChatMessage>{{"user", text}}))
        prompt += piece.text;
      prompt += ours.reply_begin();
    }
    return prompts;
  }
  nlohmann::ordered_json conversations = nlohmann::ordered_json::array();
  for (const std::string& text : said)
    conversations.push_back({{"messages", {nlohmann::ordered_json{{"role", "user"}, {"content", text}}}},
                             {"replies", nlohmann::ordered_json::array()},
                             {"prompt", true}});
  JinjaRenderer renderer(*format.jinja, format.variables, format.date);
  renderer.send(conversations);
  for (const JinjaRenderer::Text& text : renderer.receive()) {
    if (!text.error.empty()) throw InputError(text.error);
    prompts.push_back(text.text);
  }
  return prompts;
}

std::unique_ptr<Tokenizer> open_tokenizer(const DataSettings& settings) {
  if (settings.tokenizer == "byte") return make_byte_tokenizer();
  if (settings.tokenizer == "char") {
    return make_corpus_char_tokenizer(corpus_options(settings, all_paths(settings), true));
  }
  return load_tokenizer(settings.tokenizer, turn_end(settings));
}

Corpus open_text(const DataSettings& settings, bool quiet) {
  Corpus corpus;
  corpus.tokenizer = open_tokenizer(settings);
  corpus.sizes = settings.sizes;
  complete_vocabulary(corpus.sizes, *corpus.tokenizer);
  const LoadTokens load = [&](const std::vector<std::string>& patterns) {
    CorpusOptions options = corpus_options(settings, patterns, quiet);
    options.is_cut = &corpus.is_cut;
    return load_tokens(options, *corpus.tokenizer);
  };
  fill_mixed_corpus(corpus, settings, [&](Corpus& part, const DataSettings& one) {
    if (settings.items) return fill_item_corpus(part, one, quiet);
    fill_token_corpus(part, one, corpus.tokenizer->fingerprint(), corpus.tokenizer->end_of_text(), load);
  });
  const bool is_ours = settings.tokenizer == "byte" || settings.tokenizer == "char";
  corpus.files = tokenizer_files(is_ours ? "" : settings.tokenizer, corpus.tokenizer->to_json(),
                                 corpus.tokenizer->end_tokens());
  // A checkpoint has the template that it was trained with.
  if (settings.items && settings.chat_template == "own" && !settings.chat_template_jinja.empty())
    corpus.files["chat_template.jinja"] = item_format(settings).jinja->source;
  return corpus;
}

}  // namespace hydrac::runtime
