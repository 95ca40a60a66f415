// A preparation's report, for people and for programs.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "prepare/prepare.h"
#include "runtime/log/units.h"

namespace hydrac::prepare {

namespace {

using Json = nlohmann::ordered_json;

const char* word_of(Dedupe dedupe) {
  return dedupe == Dedupe::lines ? "lines" : dedupe == Dedupe::documents ? "documents" : "none";
}

Json counts_json(const SourceCounts& counts) {
  return {{"documents", counts.documents},
          {"bytes", counts.bytes},
          {"dropped_documents", counts.dropped_documents},
          {"dropped_lines", counts.dropped_lines},
          {"dropped_bytes", counts.dropped_bytes}};
}

const char* word_of(Order order) {
  return order == Order::length ? "length" : order == Order::rarity ? "rarity" : "shuffled";
}

std::string bytes_of(int64_t bytes) {
  return runtime::human_bytes(static_cast<uint64_t>(bytes));
}

}  // namespace

std::string report_json(const PrepareReport& report, const PrepareOptions& options) {
  Json sources = Json::array();
  for (const SourceReport& source : report.sources) {
    Json entry = {{"name", source.name}, {"weight", source.weight}, {"files", source.files}};
    entry.update(counts_json(source.text));
    entry["train_tokens"] = source.train_tokens;
    entry["val_tokens"] = source.val_tokens;
    sources.push_back(std::move(entry));
  }
  Json root = {{"hydrac_data_prepare", 1},
               {"tokenizer", options.tokenizer.empty() ? "learned" : options.tokenizer},
               {"vocab_size", report.vocab_size},
               {"val_fraction", options.val_fraction},
               {"dedupe", word_of(options.dedupe)},
               {"order", word_of(options.order)},
               {"seed", options.seed},
               {"sources", std::move(sources)}};
  root.update(counts_json(report.text));
  root["tokens"] = report.tokens;
  root["train_tokens"] = report.train_tokens;
  root["val_tokens"] = report.val_tokens;
  Json files = Json::array();
  for (const auto* list : {&report.train_files, &report.val_files, &report.tokenizer_files}) {
    for (const std::string& name : *list) files.push_back(name);
  }
  root["files"] = std::move(files);
  // Names of files need not be UTF-8.
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<std::string> files_of_report(std::string_view json) {
  const nlohmann::json root = nlohmann::json::parse(json, nullptr, false);
  if (!root.is_object() || !root.contains("hydrac_data_prepare")) return {};
  std::vector<std::string> names = {kReportFile};
  if (root.contains("files") && root["files"].is_array()) {
    for (const nlohmann::json& name : root["files"]) {
      if (name.is_string()) names.push_back(name.get<std::string>());
    }
  }
  return names;
}

std::string report_text(const PrepareReport& report, const PrepareOptions& options) {
  size_t width = 6;
  for (const SourceReport& source : report.sources) width = std::max(width, source.name.size());
  std::string text = fmt::format("{:<{}}  {:>9}  {:>9}  {:>6}  {:>12}  {:>12}\n", "source", width,
                                 "documents", "bytes", "weight", "train tokens", "val tokens");
  const auto row = [&](const std::string& name, const SourceCounts& counts, const std::string& weight,
                       uint64_t train, uint64_t val) {
    text += fmt::format("{:<{}}  {:>9}  {:>9}  {:>6}  {:>12}  {:>12}\n", name, width, counts.documents,
                        bytes_of(counts.bytes), weight, train, val);
  };
  for (const SourceReport& source : report.sources)
    row(source.name, source.text, fmt::format("{}", source.weight), source.train_tokens, source.val_tokens);
  if (report.sources.size() > 1) row("all", report.text, "", report.train_tokens, report.val_tokens);
  const SourceCounts& all = report.text;
  if (all.dropped_documents + all.dropped_lines > 0) {
    const std::string lines =
        all.dropped_lines > 0 ? runtime::counted(all.dropped_lines, "line") + " and " : "";
    text +=
        fmt::format("dropped as duplicates: {}{}, {}\n", lines,
                    runtime::counted(all.dropped_documents, "whole document"), bytes_of(all.dropped_bytes));
  }
  text += fmt::format(
      "vocabulary: {} tokens{}; {:.2f} bytes a token\n", report.vocab_size,
      report.words > 0
          ? ", learned from " + runtime::counted(static_cast<int64_t>(report.words), "different word")
          : "",
      static_cast<double>(all.bytes) / static_cast<double>(report.tokens));
  if (options.order != Order::shuffled)
    text += fmt::format("order: by {}\n", options.order == Order::length
                                              ? "length, short documents first"
                                              : "rarity, documents of common tokens first");
  text += fmt::format("shards: {} to train, {} to validate\n", report.train_files.size(),
                      report.val_files.size());
  return text;
}

}  // namespace hydrac::prepare
