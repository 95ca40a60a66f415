// Specs are read by other YAML readers too: what looks like a number is one in YAML 1.1 as well (PyYAML takes
// 6e-4 for text), and what is text is no number there.
#include <gtest/gtest.h>

#include <regex>

#include "spec/print.h"
#include "spec/reader/scalar.h"
#include "spec/reader/yaml.h"
#include "support.h"

namespace hydrac::spec {
namespace {

namespace fs = std::filesystem;

// https://yaml.org/type/int.html, float.html and bool.html, as PyYAML implements them.
enum class Old { integer, real, truth, text };
Old read_by_yaml_11(const std::string& text) {
  static const std::regex integer(
      "[-+]?(0b[0-1_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*(:[0-5]?[0-9])+)");
  static const std::regex real(
      "[-+]?([0-9][0-9_]*)\\.[0-9_]*([eE][-+][0-9]+)?|[-+]?\\.[0-9][0-9_]*([eE][-+][0-9]+)?|"
      "[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\\.[0-9_]*|[-+]?\\.(inf|Inf|INF)|\\.(nan|NaN|NAN)");
  static const std::regex truth("yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF");
  if (std::regex_match(text, integer)) return Old::integer;
  if (std::regex_match(text, real)) return Old::real;
  return std::regex_match(text, truth) ? Old::truth : Old::text;
}

Old read_by_hydrac(const Node& node) {
  const Scalar value = scalar_value(node);
  if (std::holds_alternative<int64_t>(value)) return Old::integer;
  if (std::holds_alternative<double>(value)) return Old::real;
  return std::holds_alternative<bool>(value) ? Old::truth : Old::text;
}

// Counts the plain scalars.
int expect_same_everywhere(const Node& node, const std::string& file) {
  int count = 0;
  if (node.kind == Node::Kind::scalar && !node.quoted) {
    EXPECT_EQ(read_by_yaml_11(node.text), read_by_hydrac(node))
        << file << ":" << node.where.line << ": " << node.text << " is something else to other YAML readers";
    ++count;
  }
  for (const Node& item : node.items) count += expect_same_everywhere(item, file);
  for (const Entry& entry : node.entries) count += expect_same_everywhere(entry.value, file);
  return count;
}

int expect_same_everywhere(const std::string& text, const std::string& file) {
  diag::Diagnostics diagnostics;
  const auto node = parse_yaml(text, {file, 1, 1}, diagnostics);
  EXPECT_TRUE(node && !diagnostics.has_errors()) << diagnostics.render();
  return node ? expect_same_everywhere(*node, file) : 0;
}

std::vector<fs::path> files_of(std::initializer_list<const char*> folders, const char* extension) {
  std::vector<fs::path> files;
  for (const char* folder : folders)
    for (const auto& entry : fs::directory_iterator(source_dir() / folder))
      if (entry.path().extension() == extension) files.push_back(entry.path());
  return files;
}

TEST(PlainNumbers, AreNumbersToEveryReaderInShippedSpecs) {
  int scalars = 0;
  for (const fs::path& file : files_of({"specs", "bench/specs", "bench/fresh", "examples"}, ".yaml")) {
    scalars += expect_same_everywhere(read_file(file), file.string());
    diag::Diagnostics diagnostics;
    const auto spec = load_spec(file.string(), {}, diagnostics);
    ASSERT_TRUE(spec) << diagnostics.render();
    expect_same_everywhere(to_yaml(*spec), "resolved " + file.string());
  }
  EXPECT_GT(scalars, 200);
}

TEST(PlainNumbers, AreNumbersToEveryReaderInTheDocs) {
  std::vector<fs::path> files = files_of({"docs", "generated"}, ".md");
  files.push_back(source_dir() / "README.md");
  int blocks = 0;
  for (const fs::path& file : files) {
    const std::string text = read_file(file), fence = "```yaml\n";
    for (size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, at + 1), ++blocks) {
      const size_t begin = at + fence.size();
      expect_same_everywhere(text.substr(begin, text.find("```", begin) - begin), file.string());
    }
  }
  EXPECT_GT(blocks, 0);
}

TEST(PlainNumbers, ArePrintedForEveryReader) {
  EXPECT_EQ(yaml_number(6e-4), "0.0006");
  EXPECT_EQ(yaml_number(1e-5), "1.0e-05");
  EXPECT_EQ(yaml_number(1.5e-7), "1.5e-07");
  EXPECT_EQ(yaml_number(1e22), "1.0e+22");
  EXPECT_EQ(yaml_number(10000), "10000");
  for (const double value : {1e-300, 3e-9, 0.1, 0.0, 12.0, 1e16, 123456789.0, 1e300}) {
    const Node node{.kind = Node::Kind::scalar, .text = yaml_number(value)};
    EXPECT_EQ(read_by_yaml_11(node.text), read_by_hydrac(node)) << node.text;
    EXPECT_EQ(std::stod(node.text), value);
  }
  EXPECT_EQ(good(kSmall, {"train.optimizer.learning_rate=6e-4"}).train.optimizer.learning_rate, 6e-4);
}

}  // namespace
}  // namespace hydrac::spec
