#include "runtime/text/tokenizer/post_processor.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "runtime/error.h"
#include "runtime/json/json_fields.h"

namespace hydrac::runtime {

namespace {

using nlohmann::json;

class PostProcessorReader {
 public:
  explicit PostProcessorReader(const std::string& shown_as) : shown_as_(shown_as) {}

  void read(const json& processor) {
    if (!processor.is_object()) fail("it is not an object");
    const std::string type = json_string(processor, "type", "", shown_as_);
    if (type == "Sequence") {
      for (const json& member : json_container(processor, "processors", json::value_t::array, shown_as_))
        read(member);
    } else if (type == "TemplateProcessing") {
      read_template(processor);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      around_.before.insert(around_.before.begin(), id_of_pair(processor, "cls"));
      around_.behind.push_back(id_of_pair(processor, "sep"));
    } else if (type != "ByteLevel") {  // which moves offsets alone
      fail(fmt::format("the type \"{}\" is not supported", type));
    }
  }

  PostProcessor take() { return std::move(around_); }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw InputError(fmt::format("{}: \"post_processor\": {}", shown_as_, what));
  }

  int32_t id_in(const json& id) const {
    if (!id.is_number_unsigned()) fail("the id of a token is not a number");
    return id.get<int32_t>();
  }

  // ["[CLS]", 101]
  int32_t id_of_pair(const json& processor, const char* key) const {
    const json& pair = json_container(processor, key, json::value_t::array, shown_as_);
    if (pair.size() != 2) fail(fmt::format("\"{}\" is not a token with its id", key));
    return id_in(pair[1]);
  }

  // {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
  //  "special_tokens": {"<s>": {"ids": [1]}}}
  void read_template(const json& processor) {
    const json& single = json_container(processor, "single", json::value_t::array, shown_as_);
    std::vector<int32_t> before, behind;
    int texts = 0;
    for (const json& piece : single) {
      if (!json_field(piece, "Sequence").is_null()) {
        ++texts;
        continue;
      }
      const std::string token = json_string(
          json_container(piece, "SpecialToken", json::value_t::object, shown_as_), "id", "", shown_as_);
      const json& known = json_container(processor, "special_tokens", json::value_t::object, shown_as_);
      for (const json& id :
           json_container(json_container(known, token.c_str(), json::value_t::object, shown_as_), "ids",
                          json::value_t::array, shown_as_))
        (texts == 0 ? before : behind).push_back(id_in(id));
    }
    if (texts != 1) fail("\"single\" does not have its text once");
    around_.before.insert(around_.before.begin(), before.begin(), before.end());
    around_.behind.insert(around_.behind.end(), behind.begin(), behind.end());
  }

  const std::string& shown_as_;
  PostProcessor around_;
};

}  // namespace

PostProcessor read_post_processor(const json& root, const std::string& shown_as) {
  PostProcessorReader reader(shown_as);
  if (const json& processor = json_field(root, "post_processor"); !processor.is_null())
    reader.read(processor);
  return reader.take();
}

}  // namespace hydrac::runtime
