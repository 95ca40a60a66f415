// The post_processor of a tokenizer.json: the tokens that stand around a text which is a prompt by itself.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace hydrac::runtime {

struct PostProcessor {
  std::vector<int32_t> before, behind;
};

// `root`: a parsed tokenizer.json. InputError for what is malformed or of an unknown type.
PostProcessor read_post_processor(const nlohmann::json& root, const std::string& shown_as);

}  // namespace hydrac::runtime
