// A JSON object read member by member: every error names the member's place, and members nobody asked for are
// found at the end. Include it in .cpp files only.
#pragma once
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace hydrac::oracle {

class JsonReader {
 public:
  // `where` is how errors name this object, such as "graph.values[3]".
  JsonReader(const nlohmann::json& object, std::string where);

  bool has(const std::string& key);  // present and not null
  const nlohmann::json& member(const std::string& key);
  const nlohmann::json& array(const std::string& key);
  JsonReader object(const std::string& key);
  std::string text(const std::string& key);
  double number(const std::string& key);
  double number(const std::string& key, double fallback);
  // Throws unless low <= value <= high.
  std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high);
  std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high, std::int64_t fallback);

  // Throws when the object has a member that none of the calls above asked for.
  void expect_no_more() const;

  std::string place(const std::string& key) const;

 private:
  const nlohmann::json& json_;
  std::string where_;
  std::set<std::string> asked_;
};

}  // namespace hydrac::oracle
