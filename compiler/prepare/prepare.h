// `hydrac data prepare`: from files of text to a tokenizer and token shards.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "prepare/shards.h"
#include "prepare/text_corpus.h"

namespace hydrac::prepare {

// In which training documents are written.
enum class Order { shuffled, length, rarity };

struct PrepareOptions {
  std::vector<Source> sources;
  std::string tokenizer;       // "byte", "char", the path of a tokenizer.json; empty: learned from the text
  int64_t vocab_size = 32768;  // of a learned one
  double val_fraction = 0.01;  // see mix()
  Dedupe dedupe = Dedupe::none;
  Order order = Order::shuffled;  // see sort_by_length(), sort_by_rarity()
  std::string text_key = "text";
  uint64_t seed = 1337;
  int threads = 1;  // change nothing but the time
  uint64_t shard_tokens = ShardOptions().tokens;
  std::filesystem::path folder;  // where files go; it is there
  // Hears how far a phase has come ("reading", in bytes; ...); may be empty.
  std::function<void(std::string_view phase, int64_t done, int64_t of)> progress;
};

struct SourceReport {
  std::string name;
  double weight = 1;
  size_t files = 0;
  SourceCounts text;
  uint64_t train_tokens = 0, val_tokens = 0;
};

struct PrepareReport {
  std::vector<SourceReport> sources;
  SourceCounts text;  // of all sources
  int64_t vocab_size = 0;
  size_t words = 0;     // different ones that a tokenizer was learned from
  uint64_t tokens = 0;  // of the text that was kept, once, without end-of-text tokens
  uint64_t train_tokens = 0, val_tokens = 0;
  std::vector<std::string> train_files, val_files, tokenizer_files;  // names in the folder
};

// Equal files and options give equal bytes. Throws InputError and RunError as its parts do; files may then be
// left in the folder.
PrepareReport prepare(const PrepareOptions& options);

// The name of the report, which is written last.
inline constexpr const char* kReportFile = "prepare.json";
std::string report_json(const PrepareReport& report, const PrepareOptions& options);
// The same for people.
std::string report_text(const PrepareReport& report, const PrepareOptions& options);

// The names of the files that the report in `json` lists, and of the report itself. Empty if `json` is not a
// report.
std::vector<std::string> files_of_report(std::string_view json);

}  // namespace hydrac::prepare
