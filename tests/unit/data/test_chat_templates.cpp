// The model's own templates: ids that transformers gives for many, what is learned, and what goes wrong with
// its place.
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "data_test.h"
#include "runtime/text/item_encoder.h"
#include "runtime/text/text_corpus.h"
#include "runtime/text/tokenizer/tokenizers.h"

namespace hydrac::runtime {
namespace {

using Json = nlohmann::ordered_json;

std::string template_file(const std::string& name) {
  return (std::filesystem::path(hydrac::test::source_dir()) / "tests/unit/data/chat_templates" / name)
      .string();
}

// Qwen's tokenizer with these tokens beside its own, as tests/e2e/chat_templates.py makes it.
std::string tokenizer_with(const std::vector<std::string>& tokens) {
  Json file = Json::parse(read_text(test_file("qwen2.tokenizer.json")));
  int64_t free = 0;
  std::vector<std::string> known;
  for (const auto& [token, id] : file["model"]["vocab"].items()) free = std::max(free, id.get<int64_t>() + 1);
  for (const Json& token : file["added_tokens"]) {
    free = std::max(free, token["id"].get<int64_t>() + 1);
    known.push_back(token["content"]);
  }
  for (const std::string& token : tokens) {
    if (std::ranges::find(known, token) != known.end()) continue;
    known.push_back(token);
    file["added_tokens"].push_back({{"id", free++},
                                    {"content", token},
                                    {"special", true},
                                    {"normalized", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"single_word", false}});
  }
  return file.dump();
}

// A model's folder with a template.
class OwnTemplate {
 public:
  explicit OwnTemplate(const std::string& source, const std::vector<std::string>& tokens = {"<s>", "</s>"}) {
    path_ = folder_.write("tokenizer.json", tokenizer_with(tokens));
    folder_.write("tokenizer_config.json", Json{{"bos_token", tokens[0]}, {"eos_token", tokens[1]}}.dump());
    folder_.write("chat_template.jinja", source);
    tokenizer_ = load_tokenizer(path_);
    format.chat_template = "own";
    format.jinja = find_jinja_template(path_);
    format.jinja->shown_as = "chat_template.jinja";
  }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

  std::vector<std::vector<MarkedToken>> encode(const std::vector<Json>& records) const {
    ItemEncoder encoder(*tokenizer_, format);
    std::vector<PendingItem> batch;
    for (const Json& record : records) batch.push_back(encoder.prepare(record).front());
    encoder.send(batch);
    encoder.receive(batch);
    std::vector<std::vector<MarkedToken>> items(batch.size());
    for (size_t i = 0; i < batch.size(); ++i) encoder.encode(batch[i], items[i]);
    return items;
  }
  std::string learned(const std::vector<MarkedToken>& item) const {
    std::string text;
    for (const MarkedToken token : item)
      if (!token.is_context()) text += tokenizer_->token_bytes(token.id());
    return text;
  }
  std::string learned(const Json& record) const { return learned(encode({record})[0]); }
  std::string error(const Json& record) const {
    return input_error([&] { encode({record}); });
  }

  ItemFormat format;

 private:
  TempFolder folder_;
  std::string path_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

Json message(const char* role, const char* content, Json more = Json::object()) {
  Json all = {{"role", role}, {"content", content}};
  all.update(more);
  return all;
}

Json conversation(const std::vector<Json>& messages) {
  return {{"messages", messages}};
}

// chat_templates/expected.json is what transformers gives.
TEST(OwnTemplates, WriteTheIdsOfTransformers) {
  const Json cases = Json::parse(read_text(template_file("cases.json"))),
             expected = Json::parse(read_text(template_file("expected.json")));
  for (const auto& [name, of_name] : cases["templates"].items()) {
    std::vector<std::string> tokens = {of_name["bos"], of_name["eos"]};
    for (const Json& token : of_name["tokens"]) tokens.push_back(token);
    OwnTemplate own(read_text(template_file(name + ".jinja")), tokens);
    const Json unclear = of_name.value("unclear", Json::array());
    for (const bool last_only : {false, true}) {
      own.format.last_only = last_only;
      std::vector<std::string> kinds;
      std::vector<Json> records;
      for (const Json& kind : of_name["kinds"]) {
        if ((std::ranges::find(unclear, kind) != unclear.end()) != last_only) continue;
        kinds.push_back(kind);
        records.push_back(cases["conversations"][kind.get<std::string>()]);
      }
      const auto items = own.encode(records);
      for (size_t i = 0; i < kinds.size(); ++i) {
        std::vector<int32_t> ids;
        for (const MarkedToken token : items[i]) ids.push_back(token.id());
        EXPECT_EQ(ids, expected[name][kinds[i]]["ids"].get<std::vector<int32_t>>())
            << name << ", " << kinds[i];
        EXPECT_EQ(own.learned(items[i]), expected[name][kinds[i]]["learned"].get<std::string>())
            << name << ", " << kinds[i];
      }
    }
  }
}

const std::vector<Json> kSaid = {message("user", "a"), message("assistant", "b"), message("user", "c"),
                                 message("assistant", "d")};

TEST(OwnTemplates, LearnTheRepliesThatAreAskedFor) {
  OwnTemplate own(read_text(template_file("internlm.jinja")), {"<s>", "</s>", "<|im_start|>", "<|im_end|>"});
  EXPECT_EQ(own.learned(conversation(kSaid)), "b<|im_end|>d<|im_end|>");
  own.format.last_only = true;
  EXPECT_EQ(own.learned(conversation(kSaid)), "d<|im_end|>");
  own.format.last_only = false;
  std::vector<Json> marked = kSaid;
  marked[3]["weight"] = 0;
  EXPECT_EQ(own.learned(conversation(marked)), "b<|im_end|>");
  own.format.replies_only = false;
  EXPECT_EQ(own.learned(conversation(marked)),
            "<s><|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\n"
            "c<|im_end|>\n<|im_start|>assistant\n");
  marked[2]["weight"] = 0;
  EXPECT_EQ(own.error(conversation(marked)),
            "message 3: weight, train and loss are for what the assistant says, where the model's own "
            "template is run");
}

TEST(OwnTemplates, LearnTheirGenerationBlocks) {
  OwnTemplate own(read_text(template_file("generation.jinja")),
                  {"<s>", "</s>", "<|im_start|>", "<|im_end|>"});
  own.format.last_only = true;
  EXPECT_EQ(own.learned(conversation(kSaid)), "d<|im_end|>");
  const OwnTemplate twice(
      "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}");
  EXPECT_EQ(twice.learned(conversation(kSaid)), "abcd");
  std::vector<Json> marked = kSaid;
  marked[3]["train"] = false;
  EXPECT_EQ(twice.error(conversation(marked)),
            "chat_template.jinja writes 4 {% generation %} blocks for 2 replies, so that none of these can "
            "be left out of what is "
            "learned");
}

// A format of hydrac's writes what is plain: no Python is needed.
TEST(OwnTemplates, AreNotRunWhereAFormatWritesTheSame) {
  OwnTemplate own("{{ raise_exception('run') }} {{ tools }}", {"<s>", "</s>", "<|im_start|>", "<|im_end|>"});
  own.format.plain_format = "chatml";
  EXPECT_EQ(own.learned(conversation(kSaid)), "b<|im_end|>d<|im_end|>");
  Json with_tools = conversation(kSaid);
  with_tools["tools"] = Json::array({{{"name", "f"}}});
  EXPECT_EQ(own.error(with_tools), "the template says: run");
}

TEST(OwnTemplates, ThatNameToolUseRunItForTools) {
  OwnTemplate own("plain");
  own.format.jinja->with_tools = "{{ tools | tojson }}";
  own.format.replies_only = false;
  Json with_tools = conversation(kSaid);
  with_tools["tools"] = R"([{"name": "z", "a": 1}])";
  EXPECT_EQ(own.learned(conversation(kSaid)), "plain");
  EXPECT_EQ(own.learned(with_tools), R"([{"name": "z", "a": 1}])");
}

TEST(OwnTemplates, SayWhatIsWrongWithThem) {
  const Json turns = conversation(kSaid);
  EXPECT_EQ(OwnTemplate("{% for m in messages %}\n{{ m.content }}\n{% endfo %}").error(turns),
            "chat_template.jinja:3: Encountered unknown tag 'endfo'. Jinja was looking for the following "
            "tags: 'endfor' or 'else'. The "
            "innermost block that needs to be closed is 'for'.");
  EXPECT_EQ(OwnTemplate("a\n{{ raise_exception('Roles must alternate') }}").error(turns),
            "the template says: Roles must alternate");
  EXPECT_EQ(OwnTemplate("a\n\n{{ messages[9].content }}").error(turns),
            "chat_template.jinja:3: UndefinedError: list object has no element 9");
  EXPECT_TRUE(OwnTemplate("{{ ''.__class__.__mro__ }}")
                  .error(turns)
                  .find("SecurityError: access to attribute '__class__'") != std::string::npos);
  const OwnTemplate rewrites("{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_TRUE(
      rewrites.error(turns).starts_with("message 2: the template writes this reply, or what is before it, "
                                        "otherwise in the whole conversation than where it ends, so that"))
      << rewrites.error(turns);
  const OwnTemplate parts("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_TRUE(
      parts.error(conversation({{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "a"}}}}}}))
          .starts_with("the template does not read a content of parts: write it as one text"));
  EXPECT_EQ(parts.error(conversation({message("user", "a", {{"wieght", 0}})})),
            "message 1: chat_template.jinja does not read \"wieght\"");
  OwnTemplate variables("{{ thinking }}");
  variables.format.variables = R"({"thinkin_": true})";
  EXPECT_EQ(variables.error(turns),
            "data.chat_template_kwargs: chat_template.jinja does not read \"thinkin_\"");
}

TEST(OwnTemplates, HaveLimits) {
  const Json turns = conversation(kSaid);
  const char* endless =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% "
      "endfor %}{% endfor %}";
  EXPECT_EQ(OwnTemplate(endless).error(turns), "chat_template.jinja takes longer than 5 seconds");
  EXPECT_EQ(OwnTemplate("\n{{ 'a' * 9999999999 }}").error(turns),
            "chat_template.jinja:2: it takes more than 2048 MiB of memory");
}

TEST(OwnTemplates, NeedJinja) {
  const OwnTemplate own("plain");
  const char* before = std::getenv("HYDRAC_PYTHON");
  const std::string kept = before ? before : "";
  ::setenv("HYDRAC_PYTHON", "/nowhere/python3", 1);
  EXPECT_EQ(own.error(conversation(kSaid)),
            "the model's chat template is run by jinja2, and /nowhere/python3 cannot be run: install it "
            "(apt-get install "
            "python3-jinja2, or pip install jinja2), or name a Python that has it in $HYDRAC_PYTHON; "
            "data.chat_template has formats "
            "that need none");
  const TempFolder folder;
  const std::string bare = folder.write("python", "#!/bin/sh\nexec python3 -S -I \"$@\"\n");
  std::filesystem::permissions(bare, std::filesystem::perms::owner_all);
  ::setenv("HYDRAC_PYTHON", bare.c_str(), 1);
  EXPECT_TRUE(own.error(conversation(kSaid)).find(bare + " does not have it") != std::string::npos)
      << own.error(conversation(kSaid));
  before ? ::setenv("HYDRAC_PYTHON", kept.c_str(), 1) : ::unsetenv("HYDRAC_PYTHON");
}

TEST(OwnTemplates, EndRepliesWithTheirToken) {
  const TempFolder folder;
  DataSettings settings;
  settings.items = true;
  settings.chat_template = "own";
  settings.tokenizer = folder.write("tokenizer.json", tokenizer_with({"<s>", "</s>", "<end_of_turn>"}));
  folder.write("chat_template.jinja", read_text(template_file("gemma.jinja")));
  const auto tokenizer = open_tokenizer(settings);
  EXPECT_TRUE(tokenizer->end_tokens().contains(tokenizer->encode("<end_of_turn>")[0]));
}

}  // namespace
}  // namespace hydrac::runtime
