#include "prepare/text_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "prepare/duplicates.h"
#include "prepare/ordered_work.h"
#include "prepare/scratch_file.h"
#include "runtime/base/utf8.h"
#include "runtime/data/text_bytes.h"
#include "runtime/error.h"
#include "runtime/text/documents.h"

namespace hydrac::prepare {

using runtime::InputError;
using runtime::InputFile;
using runtime::MappedFile;
using runtime::SourceKind;

namespace {

// The unit that one thread reads at a time: a file, lines of a large JSONL file, or row groups of a table.
struct Unit {
  const InputFile* file;
  uint32_t file_index;
  int64_t file_bytes = 0;  // its share of the file's size
  uint64_t begin = 0, end = 0;
  int64_t first_line = 0;  // 0: the whole file
  bool ends_file = true;
  std::optional<runtime::RowGroups> groups = {};
};

struct UnitText {
  std::shared_ptr<const void> owner;  // of what the views point into
  std::vector<std::string_view> documents;
  std::vector<TextKey> keys;  // of documents, or of all documents' lines that are not blank
};

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

// Calls visit(line with its end).
template <typename Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const size_t size = newline == std::string_view::npos ? text.size() : newline + 1;
    visit(text.substr(0, size));
    text.remove_prefix(size);
  }
}

TextKey line_key(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return key_of(line);
}

// Large JSONL files in several units, each of whole lines.
void add_lines(const InputFile& file, uint32_t index, std::vector<Unit>& units) {
  constexpr size_t kUnit = size_t{4} << 20;
  const auto mapped = MappedFile::open(file.path, file.name);
  const std::string_view bytes = mapped->bytes();
  runtime::require_text(bytes, file.name, "UTF-8 text");
  int64_t line = 1;
  for (size_t begin = 0; begin < bytes.size();) {
    size_t end = bytes.size() - begin <= kUnit ? bytes.size() : bytes.find('\n', begin + kUnit);
    end = end >= bytes.size() ? bytes.size() : end + (bytes[end] == '\n');
    units.push_back({&file, index, static_cast<int64_t>(end - begin), begin, end, line, end == bytes.size()});
    line += std::count(bytes.begin() + static_cast<ptrdiff_t>(begin),
                       bytes.begin() + static_cast<ptrdiff_t>(end), '\n');
    begin = end;
  }
}

// The row groups of a Parquet file in several units; an Arrow file is one.
void add_groups(const InputFile& file, uint32_t index, int64_t file_bytes, std::vector<Unit>& units) {
  constexpr int64_t kUnit = int64_t{32} << 20;
  const std::vector<runtime::RowGroups> all = runtime::row_groups(file, kUnit);
  if (all.empty()) units.push_back({&file, index, file_bytes});
  for (size_t i = 0; i < all.size(); ++i) {
    Unit unit = {&file, index, file_bytes / std::ssize(all)};
    unit.ends_file = i + 1 == all.size();
    unit.groups = all[i];
    units.push_back(unit);
  }
}

std::vector<Unit> units_of(const std::vector<Source>& sources, TextCorpus& corpus) {
  constexpr uintmax_t kLarge = uintmax_t{8} << 20;
  std::vector<Unit> units;
  std::map<std::string, size_t> seen;
  for (size_t source = 0; source < sources.size(); ++source) {
    for (const InputFile& file : sources[source].files) {
      const SourceKind kind = runtime::source_kind(file);
      if (kind == SourceKind::tokens)
        throw InputError(fmt::format("{}: it is a token shard, not text", file.name));
      if (kind == SourceKind::csv)
        throw InputError(fmt::format("{}: a CSV file holds series, not text", file.name));
      const auto [known, is_new] = seen.emplace(file.name, source);
      if (!is_new)
        throw InputError(fmt::format("{}: it belongs to {} and to {}: name it once", file.name,
                                     sources[known->second].name, sources[source].name));
      const auto index = static_cast<uint32_t>(corpus.files.size());
      corpus.files.push_back(file.name);
      corpus.source_of.push_back(static_cast<uint32_t>(source));
      std::error_code error;
      const uintmax_t size = std::filesystem::file_size(file.path, error);
      if (!error && kind == SourceKind::jsonl && packing(file) == runtime::Packing::none && size >= kLarge)
        add_lines(file, index, units);
      else if (!error && kind == SourceKind::table)
        add_groups(file, index, static_cast<int64_t>(size), units);
      else
        units.push_back({&file, index, error ? 0 : static_cast<int64_t>(size)});
    }
  }
  return units;
}

class Reader {
 public:
  explicit Reader(const ReadOptions& options) : options_(options) {}

  UnitText operator()(const Unit& unit) const {
    UnitText text;
    if (runtime::source_kind(*unit.file) == SourceKind::text) {
      const auto contents = runtime::contents_of(*unit.file);
      text.owner = contents;
      runtime::for_each_document_of(
          unit.file->name, SourceKind::text, contents->bytes, options_.text_key,
          [&](const runtime::Document& document) { add(document, document.text, text); });
    } else {
      read_records(unit, text);
    }
    if (options_.dedupe != Dedupe::none) add_keys(text);
    return text;
  }

 private:
  // Texts that JSON escapes are unescaped into a string of their own.
  void read_records(const Unit& unit, UnitText& text) const {
    const auto all = std::make_shared<std::string>();
    std::vector<std::pair<size_t, size_t>> ranges;
    const auto keep = [&](const runtime::Document& document) {
      UnitText parts;
      add(document, document.text, parts);
      for (const std::string_view part : parts.documents) {
        ranges.emplace_back(all->size(), part.size());
        *all += part;
      }
    };
    const SourceKind kind = runtime::source_kind(*unit.file);
    if (kind == SourceKind::table) {
      runtime::for_each_row_document(*unit.file, unit.groups, options_.text_key, keep);
    } else if (const auto contents = runtime::contents_of(*unit.file); unit.first_line > 0) {
      runtime::for_each_line_document(unit.file->name,
                                      contents->bytes.substr(unit.begin, unit.end - unit.begin),
                                      unit.first_line, options_.text_key, keep);
    } else {
      runtime::for_each_document_of(unit.file->name, kind, contents->bytes, options_.text_key, keep);
    }
    text.owner = all;
    for (const auto& [begin, size] : ranges)
      text.documents.push_back(std::string_view(*all).substr(begin, size));
  }

  // The documents that `text` holds: one, or several with end-of-text tokens between them.
  void add(const runtime::Document& document, std::string_view text, UnitText& out) const {
    if (const auto bad = options_.utf8 ? runtime::find_malformed_utf8(text) : std::nullopt) {
      throw InputError(fmt::format("{}: byte {} is not UTF-8; this tokenizer needs UTF-8 text",
                                   runtime::place_of(document.file, document.kind, document.line), *bad));
    }
    while (!text.empty()) {
      const size_t end = options_.end_of_text ? text.find(*options_.end_of_text) : std::string_view::npos;
      if (end != 0) out.documents.push_back(text.substr(0, end));
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + options_.end_of_text->size());
    }
  }

  void add_keys(UnitText& text) const {
    for (const std::string_view document : text.documents) {
      if (options_.dedupe == Dedupe::documents) {
        text.keys.push_back(key_of(document));
        continue;
      }
      for_each_line(document, [&](std::string_view line) {
        if (!is_blank(line)) text.keys.push_back(line_key(line));
      });
    }
  }

  const ReadOptions& options_;
};

// Takes units in order.
class Collector {
 public:
  Collector(const ReadOptions& options, TextCorpus& corpus)
      : options_(options), corpus_(corpus), file_(options.scratch) {}

  void take(const Unit& unit, const UnitText& text) {
    SourceCounts& counts = corpus_.counts[corpus_.source_of[unit.file_index]];
    auto key = text.keys.begin();
    for (const std::string_view document : text.documents) {
      const std::string_view kept = options_.dedupe == Dedupe::lines ? new_lines(document, key, counts)
                                    : options_.dedupe == Dedupe::documents && !seen_.insert(*key++)
                                        ? std::string_view()
                                        : document;
      counts.dropped_bytes += static_cast<int64_t>(document.size() - kept.size());
      counts.dropped_documents += kept.empty();
      if (kept.empty()) continue;
      file_.append(kept);
      corpus_.ends.push_back(file_.size());
      corpus_.file_of.push_back(unit.file_index);
      ++counts.documents;
      counts.bytes += static_cast<int64_t>(kept.size());
    }
    documents_of_file_ += text.documents.size();
    if (unit.ends_file && std::exchange(documents_of_file_, 0) == 0)
      throw InputError(fmt::format("{}: it holds no text", unit.file->name));
  }

  void finish() { corpus_.text = file_.map(); }

 private:
  // The document without lines that were seen before; empty if only blank lines are left.
  std::string_view new_lines(std::string_view document, std::vector<TextKey>::const_iterator& key,
                             SourceCounts& counts) {
    kept_.clear();
    bool any = false;
    int64_t dropped = 0;
    for_each_line(document, [&](std::string_view line) {
      const bool blank = is_blank(line);
      if (!blank && !seen_.insert(*key++)) {
        ++dropped;
        return;
      }
      any |= !blank;
      kept_ += line;
    });
    counts.dropped_lines += dropped;
    if (dropped == 0) return document;
    return any ? std::string_view(kept_) : std::string_view();
  }

  const ReadOptions& options_;
  TextCorpus& corpus_;
  ScratchFile file_;
  SeenTexts seen_;
  std::string kept_;
  size_t documents_of_file_ = 0;
};

}  // namespace

TextCorpus read_corpus(const std::vector<Source>& sources, const ReadOptions& options) {
  TextCorpus corpus;
  corpus.counts.resize(sources.size());
  const std::vector<Unit> units = units_of(sources, corpus);
  int64_t done = 0, total = 0;
  for (const Unit& unit : units) total += unit.file_bytes;
  const Reader read(options);
  Collector collector(options, corpus);
  for_each_in_order<UnitText>(
      units.size(), options.threads, [&](size_t i) { return read(units[i]); },
      [&](size_t i, UnitText&& text) {
        collector.take(units[i], text);
        done += units[i].file_bytes;
        if (options.progress) options.progress(done, total);
      });
  collector.finish();
  return corpus;
}

namespace {

// The position after the first line, at or after `from`, whose text ends in a printing ASCII character; `end`
// if there is none.
uint64_t line_end(std::string_view text, uint64_t from, uint64_t end) {
  text = text.substr(0, end);
  for (uint64_t at = from; at < end; ++at) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) break;
    const char before = text[at - 1];
    if (before > ' ' && before <= '~') return at;
  }
  return end;
}

}  // namespace

std::vector<uint64_t> cut_places(const TextCorpus& corpus, bool within_documents) {
  constexpr uint64_t kApart = uint64_t{1} << 20;
  std::vector<uint64_t> places = {0};
  for (size_t document = 0; document < corpus.size(); ++document) {
    const uint64_t end = corpus.ends[document];
    while (within_documents && end - places.back() >= 2 * kApart) {
      const uint64_t from = std::max(places.back(), corpus.begin(document)) + kApart;
      const uint64_t place = line_end(corpus.text->bytes(), std::min(from, end), end);
      if (place >= end) break;
      places.push_back(place);
    }
    if (end - places.back() >= kApart || document + 1 == corpus.size()) places.push_back(end);
  }
  return places;
}

size_t document_at(const TextCorpus& corpus, uint64_t place) {
  return static_cast<size_t>(std::ranges::upper_bound(corpus.ends, place) - corpus.ends.begin());
}

}  // namespace hydrac::prepare
