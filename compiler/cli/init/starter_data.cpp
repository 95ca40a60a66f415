// Measures the data, and finds the columns of a CSV that can be learned from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "cli/init/starter.h"
#include "diag/render.h"
#include "diag/suggest.h"
#include "runtime/data/input_files.h"
#include "runtime/data/mapped_file.h"
#include "runtime/error.h"
#include "runtime/series/csv.h"

namespace hydrac::cli {

namespace {

using runtime::InputError;
using runtime::SourceKind;

// Text is about four times as large as its compressed file or table, a token of byte-level BPE about four
// bytes of text.
constexpr int64_t kPackedRatio = 4, kBytesPerToken = 4;

// Same rule as the loader: missing values count as numbers.
bool is_number(const std::string& field) {
  const size_t first = field.find_first_not_of(" \t+");
  if (first == std::string::npos || field == "NaN" || field == "nan" || field == "NA") return true;
  const size_t last = field.find_last_not_of(" \t");
  double value = 0;
  const auto [end, error] = std::from_chars(field.data() + first, field.data() + last + 1, value);
  return error == std::errc() && end == field.data() + last + 1;
}

void require_columns(const std::vector<std::string>& wanted, const std::vector<std::string>& header,
                     const std::string& file) {
  for (const std::string& name : wanted) {
    if (std::ranges::find(header, name) != header.end()) continue;
    const std::string nearest = diag::nearest(name, header);
    throw InputError(fmt::format("--predict: {} has no column {}{}", file, diag::printable(name),
                                 nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
  }
}

void look_at_columns(const StarterRequest& request, const runtime::InputFile& file, StarterData& data) {
  const auto mapped = runtime::MappedFile::open(file.path, file.name);
  runtime::CsvReader reader(mapped->bytes(), file.name);
  std::vector<std::string> header, row;
  if (!reader.next(header) || !reader.next(row) || row.size() != header.size())
    throw InputError(
        fmt::format("{} needs a line with the columns' names and rows of as many numbers", file.name));
  data.predicted = request.predict.empty() ? std::vector{header.back()} : request.predict;
  require_columns(data.predicted, header, file.name);
  for (size_t i = 0; i < header.size(); ++i) {
    if (std::ranges::find(data.predicted, header[i]) != data.predicted.end()) continue;
    (is_number(row[i]) ? data.features : data.left_out).push_back(header[i]);
  }
  if (data.features.empty()) throw InputError(fmt::format("{} has no numeric column to read", file.name));
}

int64_t count_rows(const runtime::InputFile& file) {
  const auto mapped = runtime::MappedFile::open(file.path, file.name);
  return std::max<int64_t>(0, std::ranges::count(mapped->bytes(), '\n') - 1);
}

// Looked for in the first records of the file, or in the schema at a table's beginning or end.
bool has_messages(const runtime::InputFile& file) {
  constexpr size_t kLooked = size_t{1} << 20;
  if (packing(file) != runtime::Packing::none) return false;
  const auto mapped = runtime::MappedFile::open(file.path, file.name);
  const std::string_view bytes = mapped->bytes();
  const auto has = [](std::string_view part, std::string_view what) {
    return part.find(what) != std::string_view::npos;
  };
  if (source_kind(file) != SourceKind::table) return has(bytes.substr(0, kLooked), "\"messages\"");
  return has(bytes.substr(0, kLooked), "messages") ||
         has(bytes.substr(bytes.size() - std::min(bytes.size(), kLooked)), "messages");
}

}  // namespace

StarterData look_at_data(const StarterRequest& request) {
  namespace fs = std::filesystem;
  if (std::error_code ignored; fs::is_directory(request.data, ignored)) {
    throw InputError(fmt::format("--data: {0} is a folder; name its files, as '{0}/*.{1}'", request.data,
                                 request.task == StarterTask::series ? "csv" : "txt"));
  }
  StarterData data;
  const bool series = request.task == StarterTask::series;
  for (const runtime::InputFile& file : runtime::expand_patterns({request.data}, "")) {
    const SourceKind kind = source_kind(file);
    if (request.task == StarterTask::finetune && kind == SourceKind::tokens)
      throw InputError(fmt::format(
          "--data: {} holds tokens; --task finetune reads text, with the model's own tokenizer", file.name));
    if (series != (kind == SourceKind::csv)) {
      throw InputError(fmt::format("--data: {} is {} CSV file, and --task {}", file.name, series ? "no" : "a",
                                   series ? "series reads these" : "series reads it"));
    }
    if (series && data.features.empty()) look_at_columns(request, file, data);
    if (series) data.rows += count_rows(file);
    const auto bytes = static_cast<int64_t>(fs::file_size(file.path));
    data.bytes += bytes;
    const bool packed = packing(file) != runtime::Packing::none || kind == SourceKind::table;
    const int64_t text = packed ? bytes * kPackedRatio : bytes;
    if (has_records(kind)) {
      data.items = true;
      data.messages |= has_messages(file);
    }
    const bool words = request.task == StarterTask::finetune ||
                       (request.task == StarterTask::language && request.tokenizer != "byte");
    data.tokens += kind == SourceKind::tokens ? bytes / 2 : words ? text / kBytesPerToken : text;
  }
  if (series) data.tokens = data.rows * static_cast<int64_t>(data.features.size());
  return data;
}

}  // namespace hydrac::cli
