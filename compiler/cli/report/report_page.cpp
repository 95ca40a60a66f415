#include "cli/report/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "cli/report/report_json.h"
#include "diag/diagnostic.h"
#include "driver/floor.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/error.h"
#include "runtime/train/run/run_files.h"
#include "runtime/train/run/run_folder.h"
#include "spec/print.h"
#include "spec/reader/source.h"

namespace hydrac::cli {

namespace {

namespace fs = std::filesystem;
using runtime::InputError;

constexpr const char* kMarker = "<title>hydrac report</title>";

std::string page_file(const std::string& path) {
  for (const ReportPageFile& file : report_page_files()) {
    if (file.path == path) return file.text;
  }
  throw std::logic_error("the report's page has no " + path);
}

// In the order of the page: functions first, what calls them last.
std::string script() {
  std::string text;
  for (const char* file : {"dom.js", "axes.js", "line_chart.js", "bar_chart.js", "run.js", "kernels.js",
                           "memory.js", "spec.js", "bench.js", "ablation.js", "page.js"})
    text += page_file(file) + "\n";
  return text;
}

// Inside <script>: only "<" could end it or begin a comment. Bytes that are no UTF-8 become U+FFFD.
std::string embedded(const ReportData& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', true, ReportData::error_handler_t::replace))
    c == '<' ? text += "\\u003c" : text += c;
  return text;
}

// An unfinished last line, as a run that is going on or was killed has one, is left out.
ReportData records_of(const fs::path& file) {
  const std::string text = runtime::read_file(file);
  ReportData records = ReportData::array();
  size_t begin = 0, end;
  for (int line = 1; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1, ++line) {
    ReportData record = ReportData::parse(text.begin() + begin, text.begin() + end, nullptr, false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number())
      throw InputError(fmt::format("{}:{}: this line is no record with a \"step\"", file.string(), line));
    records.push_back(std::move(record));
  }
  if (records.empty()) throw InputError(fmt::format("{} has no records yet", file.string()));
  return records;
}

// Reads a file that a run wrote, or somebody changed.
ReportData range_test_of(const fs::path& file) {
  const ReportData test = ReportData::parse(runtime::read_file(file), nullptr, false);
  const auto is_number = [](const ReportData& object, const char* key) {
    return object.is_object() && object.contains(key) && object[key].is_number();
  };
  const bool good =
      test.is_object() && test.contains("points") && test["points"].is_array() &&
      (!test.contains("learning_rate") || test["learning_rate"].is_number()) &&
      std::ranges::all_of(test["points"], [&](const ReportData& point) {
        return is_number(point, "learning_rate") && is_number(point, "loss") && is_number(point, "smoothed");
      });
  if (!good) throw InputError(fmt::format("{} is no range test that a run wrote", file.string()));
  return test;
}

std::string text_of(const spec::Node& node) {
  if (node.kind != spec::Node::Kind::list) return node.text;
  std::string text;
  for (const spec::Node& item : node.items) text += (text.empty() ? "" : ", ") + text_of(item);
  return "[" + text + "]";
}

// "train.seed" -> "1337": as written, so that specs of other versions of hydrac can be compared too.
void collect_keys(const spec::Node& map, const std::string& prefix, ReportData& keys) {
  for (const spec::Entry& entry : map.entries) {
    if (entry.value.kind == spec::Node::Kind::map)
      collect_keys(entry.value, prefix + entry.key + ".", keys);
    else
      keys[prefix + entry.key] = text_of(entry.value);
  }
}

ReportData one_run(const fs::path& folder) {
  if (!fs::exists(runtime::metrics_path(folder)))
    throw InputError(fmt::format("{} holds no run: it has no metrics.jsonl", folder.string()));
  const std::string spec = runtime::read_file(runtime::spec_path(folder));
  ReportData keys = ReportData::object();
  diag::Diagnostics ignored;
  if (const auto tree = spec::parse_map(runtime::spec_path(folder).string(), spec, ignored))
    collect_keys(*tree, "", keys);
  ReportData range_test;
  if (fs::exists(runtime::range_test_path(folder)))
    range_test = range_test_of(runtime::range_test_path(folder));
  const bool perplexity = keys.value("model.head", "language_model") == "language_model";
  return {{"name", keys.value("name", folder.filename().string())},
          {"path", folder.string()},
          {"spec", spec},
          {"keys", keys},
          {"perplexity", perplexity},
          {"range_test", std::move(range_test)},
          {"records", records_of(runtime::metrics_path(folder))}};
}

// Two runs of one spec are told apart by their folders.
void name_by_folder_where_equal(ReportData& runs) {
  for (size_t i = 1; i < runs.size(); ++i) {
    if (runs[i]["name"] != runs[0]["name"]) continue;
    for (ReportData& run : runs) run["name"] = run["path"];
    return;
  }
}

}  // namespace

ReportData run_report(const std::vector<std::string>& folders) {
  ReportData runs = ReportData::array();
  for (const std::string& folder : folders) runs.push_back(one_run((fs::path(folder) / "").parent_path()));
  name_by_folder_where_equal(runs);
  return {{"kind", "run"}, {"runs", std::move(runs)}};
}

ReportData spec_report(const driver::Compiled& compiled, const driver::MemoryLimit& limit) {
  ReportData data = ReportData::parse(explain_json(compiled, limit));
  const spec::Spec& spec = compiled.spec;
  const driver::Peaks peaks = driver::peaks_of(*targets::find(spec.target), spec.optimizations.precision);
  data["kind"] = "spec";
  data["spec_text"] = spec::to_yaml(spec);
  data["accumulation"] = spec.train.gradient_accumulation_steps;
  data["tokens_a_step"] = spec.train.global_batch_size * spec.train.sequence_len;
  data["peaks"] = nullptr;
  if (peaks.flops > 0 && peaks.bytes_per_second > 0)
    data["peaks"] = {{"flops", peaks.flops}, {"bytes_per_second", peaks.bytes_per_second}};
  return data;
}

ReportData table_report(const std::string& file) {
  const std::string text = runtime::read_file(file);
  ReportData data = ReportData::parse(text, nullptr, false);
  const auto has = [&](const char* list) {
    return data.is_object() && data.contains("spec") && data["spec"].is_string() && data.contains(list) &&
           data[list].is_array() && !data[list].empty();
  };
  if (has("rows"))
    data["kind"] = "ablation";
  else if (has("kernels") && data.contains("step_ms"))
    data["kind"] = "bench";
  else
    throw InputError(fmt::format(
        "{} is no table of `hydrac bench SPEC --json` or `hydrac bench SPEC --ablate --json`", file));
  return data;
}

std::string report_page(const ReportData& data) {
  const std::string page = page_file("page.html");
  const std::pair<const char*, std::function<std::string()>> parts[] = {
      {"@STYLE@", [] { return page_file("style.css"); }},
      {"@DATA@", [&] { return embedded(data); }},
      {"@SCRIPT@", script}};
  std::string text;
  size_t at = 0;
  for (const auto& [word, part] : parts) {
    const size_t next = page.find(word, at);
    if (next == std::string::npos) throw std::logic_error(fmt::format("page.html has no {}", word));
    text += page.substr(at, next - at) + part();
    at = next + std::string_view(word).size();
  }
  return text + page.substr(at);
}

bool is_report_page(const std::string& text) {
  return text.substr(0, 1000).find(kMarker) != std::string::npos;
}

}  // namespace hydrac::cli
