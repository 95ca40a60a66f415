#include "runtime/text/chat_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "runtime/base/quote.h"
#include "runtime/error.h"
#include "runtime/json/json_fields.h"
#include "runtime/json/json_input.h"

namespace hydrac::runtime {

namespace {

using Json = nlohmann::ordered_json;
using Shape = ChatRecord::Shape;

// The fields that make a shape.
struct Reading {
  Shape shape;
  std::vector<std::string> fields;
};
const std::vector<Reading>& readings() {
  static const std::vector<Reading> all = {{Shape::messages, {"messages"}},
                                           {Shape::conversations, {"conversations"}},
                                           {Shape::completion, {"prompt", "completion"}},
                                           {Shape::instruction, {"instruction", "output"}}};
  return all;
}

// As Stanford's Alpaca was trained.
std::string alpaca_prompt(const std::string& instruction, const std::string& input) {
  return fmt::format(
      "Below is an instruction that describes a task{}. Write a response that appropriately completes the "
      "request.\n\n"
      "### Instruction:\n{}\n\n{}### Response:\n",
      input.empty() ? "" : ", paired with an input that provides further context", instruction,
      input.empty() ? "" : fmt::format("### Input:\n{}\n\n", input));
}

// A turn of ShareGPT's as a message.
Json message_of_turn(const Json& turn) {
  static const std::map<std::string, std::string> kRoles = {{"human", "user"},
                                                            {"user", "user"},
                                                            {"gpt", "assistant"},
                                                            {"chatgpt", "assistant"},
                                                            {"bing", "assistant"},
                                                            {"bard", "assistant"},
                                                            {"model", "assistant"},
                                                            {"assistant", "assistant"},
                                                            {"system", "system"},
                                                            {"tool", "tool"},
                                                            {"observation", "tool"},
                                                            {"function_response", "tool"},
                                                            {"function_call", "assistant"}};
  const Json& from = turn["from"];
  const auto role = from.is_string() ? kRoles.find(from.get<std::string>()) : kRoles.end();
  if (role == kRoles.end())
    throw InputError(
        fmt::format("\"from\" is {}: it is human, gpt, system, function_call or observation", from.dump()));
  Json message = {{"role", role->second}};
  for (const auto& [key, value] : turn.items()) {
    if (key == "from") continue;
    if (key != "value")
      message[key] = value;
    else if (from != "function_call")
      message["content"] = value;
    else
      message["tool_calls"] = Json::array(
          {{{"type", "function"},
            {"function",
             value.is_string() ? parse_ordered_json(value.get<std::string>(), "\"value\"") : value}}});
  }
  return message;
}

class RecordReader {
 public:
  RecordReader(const Json& record, const RecordNames& names) : record_(record), names_(names) {}

  ChatRecord read(bool has_template) const {
    ChatRecord read;
    read.shape = shape();
    if (read.shape == Shape::text) {
      read.text = text(names_.text_key);
      return read;
    }
    if (read.shape == Shape::completion && !(is_list("prompt") || is_list("completion"))) {
      read.prompt = text(column("prompt"));
      read.text = text(column("completion"));
      read.has_prompt = true;
      if (read.text.empty()) throw InputError("the completion is empty");
      return read;
    }
    if (read.shape == Shape::instruction && !has_template) {
      read.prompt = alpaca_prompt(text(column("instruction")), optional_text("input"));
      read.text = text(column("output"));
      read.has_prompt = true;
      if (read.text.empty()) throw InputError("the output is empty");
      return read;
    }
    read.messages = messages(read.shape);
    read.tools = value_of("tools");
    if (read.tools.is_string()) read.tools = parse_ordered_json(read.tools.get<std::string>(), "\"tools\"");
    read.documents = value_of("documents");
    read.variables = value_of("chat_template_kwargs");
    return read;
  }

 private:
  std::string column(const std::string& field) const { return names_.column(field); }
  // null for what says nothing.
  const Json& value_of(const std::string& field) const {
    static const Json nothing;
    const auto found = record_.find(column(field));
    return found == record_.end() || says_nothing(*found) ? nothing : *found;
  }
  bool is_list(const char* field) const { return value_of(field).is_array(); }

  std::string text(const std::string& key) const {
    const auto field = record_.find(key);
    if (field == record_.end())
      throw InputError(fmt::format("there is no \"{}\" but {}", key, json_keys(record_)));
    if (!field->is_string())
      throw InputError(fmt::format("\"{}\" is not a string but {}", key, field->type_name()));
    return field->get<std::string>();
  }
  std::string optional_text(const char* field) const {
    return value_of(field).is_null() ? "" : text(column(field));
  }

  // The shape whose fields are all there, or some of them where none has all; data.fields chooses.
  Shape shape() const {
    const auto is_named = [&](const Reading& reading) {
      return std::ranges::any_of(reading.fields,
                                 [&](const std::string& f) { return names_.fields.contains(f); });
    };
    const bool chosen = std::ranges::any_of(readings(), is_named);
    const auto found = [&](auto has) {
      std::vector<Shape> shapes;
      for (const Reading& reading : readings())
        if ((!chosen || is_named(reading)) && has(reading.fields)) shapes.push_back(reading.shape);
      return shapes;
    };
    const auto said = [&](const std::string& field) { return !value_of(field).is_null(); };
    const auto there = [&](const std::string& field) { return record_.contains(column(field)); };
    const auto whole = found([&](const auto& fields) { return std::ranges::all_of(fields, said); });
    if (whole.size() > 1)
      throw InputError(
          fmt::format("this reads as {0} and as {1}: data.fields: {{{2}: {2}}} chooses the first",
                      to_string(whole[0]), to_string(whole[1]), first_field(whole[0])));
    if (!whole.empty()) return whole[0];
    if (!chosen && record_.contains(names_.text_key)) return Shape::text;
    const auto partly = found([&](const auto& fields) { return std::ranges::any_of(fields, there); });
    if (!partly.empty()) return partly[0];
    throw InputError(
        fmt::format("there is neither \"messages\", nor \"conversations\", nor \"prompt\" and "
                    "\"completion\", nor \"instruction\" and \"output\", nor \"{}\" (data.text_key), but {}; "
                    "data.fields gives them other names",
                    names_.text_key, json_keys(record_)));
  }
  static std::string first_field(Shape shape) {
    return std::ranges::find(readings(), shape, &Reading::shape)->fields[0];
  }

  Json messages(Shape shape) const {
    Json all = Json::array();
    if (shape == Shape::instruction) {
      const std::string system = optional_text("system"), input = optional_text("input");
      if (!system.empty()) all.push_back({{"role", "system"}, {"content", system}});
      all.push_back({{"role", "user"},
                     {"content", text(column("instruction")) + (input.empty() ? "" : "\n\n" + input)}});
      all.push_back({{"role", "assistant"}, {"content", text(column("output"))}});
      return all;
    }
    if (shape == Shape::completion) {
      add_list("prompt", all);
      for (Json& message : all)
        if (message.value("role", Json()) == "assistant") message["train"] = false;
      add_list("completion", all);
      return all;
    }
    if (const std::string system = shape == Shape::conversations ? optional_text("system") : "";
        !system.empty())
      all.push_back({{"role", "system"}, {"content", system}});
    add_list(shape == Shape::messages ? "messages" : "conversations", all);
    return all;
  }

  void add_list(const std::string& field, Json& all) const {
    const Json& list = value_of(field);
    if (!list.is_array()) throw InputError(fmt::format("\"{}\" is no list of messages", column(field)));
    for (const Json& entry : list) {
      const std::string which = fmt::format("message {}", all.size() + 1);
      if (!entry.is_object())
        throw InputError(fmt::format("{} is {}, not an object", which, entry.type_name()));
      try {
        all.push_back(renamed(entry));
      } catch (const InputError& error) {
        throw InputError(fmt::format("{}: {}", which, error.what()));
      }
    }
  }

  Json renamed(const Json& entry) const {
    if (entry.contains("from") && entry.contains("value") && !entry.contains("role"))
      return message_of_turn(entry);
    Json message;
    for (const auto& [key, value] : entry.items()) {
      const bool is_role = key == column("role"), is_content = key == column("content");
      message[is_role ? "role" : is_content ? "content" : key] = value;
    }
    return message;
  }

  const Json& record_;
  const RecordNames& names_;
};

}  // namespace

const char* to_string(Shape shape) {
  switch (shape) {
    case Shape::messages:
      return "messages";
    case Shape::conversations:
      return "conversations";
    case Shape::completion:
      return "prompt and completion";
    case Shape::instruction:
      return "instruction and output";
    default:
      return "text";
  }
}

bool says_nothing(const Json& value) {
  return value.empty() || (value.is_string() && value.get_ref<const std::string&>().empty());
}

ChatRecord read_chat_record(const Json& record, const RecordNames& names, bool has_template) {
  if (!record.is_object()) throw InputError(fmt::format("this is {}, not a JSON object", record.type_name()));
  return RecordReader(record, names).read(has_template);
}

}  // namespace hydrac::runtime
