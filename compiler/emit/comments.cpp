#include "emit/comments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "emit/folder/runtime_files.h"
#include "emit/source_file.h"
#include "specialize/specialize.h"

namespace hydrac::emit {

namespace {

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Parts of a text: identifiers of code, and comments line by line.
struct Parts {
  std::set<std::string, std::less<>> names;
  std::vector<std::string> comments;
};

Parts parts_of(std::string_view text) {
  Parts parts;
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, 2, "//") == 0) {
      const size_t end = std::min(text.find('\n', at), text.size());
      parts.comments.emplace_back(text.substr(at, end - at));
      at = end;
    } else if (text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
      ++at;
    } else if (is_of_name(text[at])) {
      size_t end = at;
      while (end < text.size() && is_of_name(text[end])) ++end;
      parts.names.emplace(text.substr(at, end - at));
      at = end;
    } else {
      ++at;
    }
  }
  return parts;
}

bool is_code(std::string_view name) {
  for (const std::string_view end : {".cpp", ".cu", ".cuh", ".h"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// True for a header that the program's own copy replaces.
bool is_specialized_header(std::string_view path) {
  static const std::vector<std::string> library = specialize::library_headers();
  const bool is_template = (path.starts_with("cuda/attention/") && !path.ends_with(".h")) ||
                           path.starts_with("cpu/attention") || path.starts_with("attention/");
  return is_template && std::ranges::find(library, path) == library.end();
}

constexpr const char* kInterface = "train.h";

// Functions of formulas, which no code defines under that name.
bool is_of_formulas(const std::string& name) {
  static const std::set<std::string> functions = {
      "gelu", "keep", "logsumexp", "mean", "round", "rowsum", "sigmoid", "softmax", "stop", "sum", "var"};
  return functions.contains(name);
}

// A word that comments may say only where kernels' code has a name with that part.
struct Feature {
  std::string_view word, code;
};
constexpr Feature kFeatures[] = {{"dropout", "dropout"},    {"document", "document"},
                                 {"softcap", "softcap"},    {"gradient_scale", "gradient_scale"},
                                 {"hopper", "wgmma"},       {"wgmma", "wgmma"},
                                 {"asynchronous", "wgmma"}, {"grouped", "kv_head"},
                                 {"policies", "mask"},      {"adapter", "adapter"}};

// Barriers of a device, each of which needs a word on what it waits for.
bool has_barrier(std::string_view line) {
  for (const std::string_view barrier :
       {"__syncthreads();", "__syncwarp(", "block_sync<", "cluster_sync();", "lanes.sync();"}) {
    const size_t at = line.find(barrier);
    if (at != std::string_view::npos && line.substr(0, at).find("void ") == std::string_view::npos)
      return true;
  }
  return false;
}

class Check {
 public:
  explicit Check(const Files& files) {
    for (const auto& [name, text] : files) {
      if (!is_code(name)) continue;
      parts_[name] = parts_of(text);
      look_at_barriers(name, text);
      names_.insert(parts_[name].names.begin(), parts_[name].names.end());
      if (name.starts_with("kernels/"))
        in_kernels_.insert(parts_[name].names.begin(), parts_[name].names.end());
      paths_.insert(name);
    }
    for (const specialize::SourceFile& file : specialize::template_headers()) take(file.path, file.text);
    for (const RuntimeFile& file : runtime_files()) take(std::string("runtime/") + file.path, file.text);
  }

  void run() {
    for (const auto& [name, parts] : parts_) {
      if (name == kInterface) continue;  // of every program
      for (const std::string& comment : parts.comments) look_at(name, comment);
    }
    if (problems_.empty()) return;
    std::string message = "hydrac would write comments on what is not there, which is an error of hydrac:";
    for (const std::string& problem : problems_) message += "\n  " + problem;
    throw std::logic_error(message);
  }

 private:
  void take(const std::string& path, std::string_view text) {
    paths_.insert(path);
    if (path.starts_with("cuda/")) look_at_barriers(path, text);
    if (!is_code(path) || is_specialized_header(path)) return;
    names_.merge(parts_of(text).names);
  }

  // The comment stands behind a barrier, or ends the line above.
  void look_at_barriers(const std::string& file, std::string_view text) {
    bool is_explained = false;
    for (size_t at = 0, end = 0; at < text.size(); at = end + 1) {
      end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      const bool has_comment = line.find("//") != std::string_view::npos;
      if (has_barrier(line) && !has_comment && !is_explained)
        problems_.insert(fmt::format("{}: \"{}\" says not what it waits for", file, line));
      is_explained = has_comment;
    }
  }

  void look_at(const std::string& file, const std::string& comment) {
    for (size_t at = 0; at < comment.size();) {
      if (!is_of_name(comment[at])) {
        ++at;
        continue;
      }
      size_t end = at;  // a path, or a name
      while (end < comment.size() && (is_of_name(comment[end]) || comment[end] == '/' || comment[end] == '.'))
        ++end;
      while (end > at && comment[end - 1] == '.') --end;
      const std::string word = comment.substr(at, end - at);
      if (is_code(word) && comment.find(kProvenance) == std::string::npos) {
        if (!has_file(word)) note(file, comment, word);
        at = end;
        continue;
      }
      end = at;
      while (end < comment.size() && is_of_name(comment[end])) ++end;
      look_at_name(file, comment, comment.substr(at, end - at), end < comment.size() && comment[end] == '(');
      at = end;
    }
  }

  void look_at_name(const std::string& file, const std::string& comment, const std::string& name,
                    bool is_called) {
    constexpr size_t kLong = 10;  // shorter ones are a formula's: d_bias, lse2
    const bool is_lower = std::islower(static_cast<unsigned char>(name[0])) != 0;
    const bool is_name = name.find('_') != std::string::npos && name.size() >= kLong && is_lower;
    const bool is_specialized = file.starts_with("kernels/attention") && !comment.starts_with("// Spec: ");
    const bool must_exist = (is_called && is_lower && !is_of_formulas(name)) || (is_name && is_specialized);
    if (must_exist && !names_.contains(name)) note(file, comment, name);
    // Names of keys and of the spec.
    if (comment.starts_with("// Spec: ") || comment.starts_with("// namespace ") ||
        comment.find(kProvenance) != std::string::npos)
      return;
    const std::string lower = in_lower_case(name);
    for (const Feature& feature : kFeatures) {
      if (lower.starts_with(feature.word) && !has(feature.code)) note(file, comment, name);
    }
  }

  // By its path, or by its name alone.
  bool has_file(const std::string& word) const {
    return paths_.contains(word) ||
           std::ranges::any_of(paths_, [&](const std::string& path) { return path.ends_with("/" + word); });
  }

  bool has(std::string_view feature) const {
    return std::ranges::any_of(in_kernels_, [&](const std::string& name) {
      return in_lower_case(name).find(feature) != std::string::npos;
    });
  }

  static std::string in_lower_case(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  }

  void note(const std::string& file, const std::string& comment, const std::string& word) {
    problems_.insert(fmt::format("{}: \"{}\" names {}", file, comment, word));
  }

  std::map<std::string, Parts> parts_;
  std::set<std::string, std::less<>> names_, in_kernels_;
  std::set<std::string, std::less<>> paths_;
  std::set<std::string> problems_;
};

}  // namespace

void check_comments(const Files& files) {
  Check(files).run();
}

}  // namespace hydrac::emit
