#include "runtime/text/table_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "runtime/base/child_process.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

// Prints lines that begin with a letter: R a row as JSON, G a row group's rows and bytes, U what is wrong
// with the next row, E with the file, M that pyarrow is missing, and D at the end: without it the process has
// died.
constexpr const char* kScript = R"py(
import datetime, json, math, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
sys.stdout.reconfigure(encoding="utf-8", errors="strict", newline="\n")
def say(letter, text):
    sys.stdout.write(letter + text + "\n")
def end(letter, text=""):
    say(letter, " ".join(str(text).split()))
    sys.stdout.flush()
    sys.exit(0)
path, kind, key, first, count = sys.argv[1:]
first, count = int(first), int(count)
try:
    import pyarrow, pyarrow.ipc, pyarrow.parquet
except ImportError as error:
    end("M", error)
def is_bytes(type):
    t = pyarrow.types
    return t.is_binary(type) or t.is_large_binary(type) or t.is_fixed_size_binary(type)
def holds_bytes(type):
    t = pyarrow.types
    if t.is_struct(type):
        return any(holds_bytes(type.field(i).type) for i in range(type.num_fields))
    if t.is_list(type) or t.is_large_list(type) or t.is_fixed_size_list(type):
        return holds_bytes(type.value_type)
    return is_bytes(type)
def chosen(schema):
    if not key:
        return [field.name for field in schema if not holds_bytes(field.type)]
    for name in (key, key.split(".")[0]):
        if name in schema.names:
            return [name]
    names = ", ".join(json.dumps(name, ensure_ascii=False) for name in schema.names[:8])
    end("E", f'it has no column "{key}" but {names or "none"}{", ..." if len(schema.names) > 8 else ""}: '
             "data.text_key says which is the text")
def plain(value):
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return str(value)
def batches():
    if kind == "parquet":
        table = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True)
        groups = list(range(first, first + count)) if count else None
        yield from table.iter_batches(batch_size=1024, columns=chosen(table.schema_arrow), row_groups=groups)
        return
    with pyarrow.memory_map(path) as source:
        try:
            reader = pyarrow.ipc.open_file(source)
            stream = (reader.get_batch(i) for i in range(reader.num_record_batches))
        except pyarrow.ArrowInvalid:
            source.seek(0)
            stream = reader = pyarrow.ipc.open_stream(source)
        names = chosen(reader.schema)
        for batch in stream:
            whole = batch.select(names)
            for start in range(0, whole.num_rows, 1024):
                yield whole.slice(start, 1024)
row = 0
try:
    if kind == "groups":
        data = pyarrow.parquet.ParquetFile(path).metadata
        for i in range(data.num_row_groups):
            say("G", f"{data.row_group(i).num_rows} {data.row_group(i).total_byte_size}")
        end("D")
    for batch in batches():
        batch.validate(full=True)
        for value in batch.to_pylist():
            row += 1
            try:
                text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
                text.encode("utf-8")
            except UnicodeError:
                end("U", "its bytes are not UTF-8")
            say("R", text)
    end("D")
except (pyarrow.ArrowException, OSError, EOFError, ValueError, MemoryError) as error:
    end("E", f"it is damaged, or no {kind} file: {str(error) or type(error).__name__}")
)py";

// A process and what it prints. Who has read enough ends it.
class Lines {
 public:
  explicit Lines(std::vector<std::string> words)
      : child_(std::move(words), {.output = kPipe}), output_(::fdopen(child_.take_output(), "r")) {}
  ~Lines() {
    if (output_) std::fclose(output_);
    std::free(line_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  bool has_started() const { return child_.error() == 0; }
  // The next line without its end; a last line that is cut short is none.
  std::optional<std::string_view> next() {
    const ssize_t size = ::getline(&line_, &room_, output_);
    if (size <= 0 || line_[size - 1] != '\n') return std::nullopt;
    return std::string_view(line_, static_cast<size_t>(size) - 1);
  }

 private:
  ChildProcess child_;
  std::FILE* output_;
  char* line_ = nullptr;
  size_t room_ = 0;
};

// Calls visit(line) for each line that the script prints behind `letter`.
template <typename Visit>
void read_table(const InputFile& file, const std::string& kind, const TableRequest& request, char letter,
                const Visit& visit) {
  const RowGroups groups = request.groups.value_or(RowGroups{});
  Lines lines({python_program(), "-c", kScript, file.path.string(), kind, request.text_key,
               std::to_string(groups.first), std::to_string(groups.count)});
  const auto fail = [&](std::string_view why) -> void {
    throw InputError(fmt::format("{}: {}", file.name, why));
  };
  const auto no_reader = [&](std::string_view why) {
    fail(fmt::format(
        "tables are read by pyarrow, and {} {}: install it (pip install pyarrow), or name a Python that "
        "has it in $HYDRAC_PYTHON",
        python_program(), why));
  };
  if (!lines.has_started()) no_reader("cannot be run");
  int64_t row = groups.first_row;
  bool any = false;
  while (const std::optional<std::string_view> line = lines.next()) {
    const std::string_view text = line->substr(std::min<size_t>(1, line->size()));
    const char kind_of_line = line->empty() ? ' ' : line->front();
    any = true;
    if (kind_of_line == letter)
      visit(text, row++);
    else if (kind_of_line == 'D')
      return;
    else if (kind_of_line == 'M')
      no_reader("does not have it");
    else if (kind_of_line == 'U')
      fail(fmt::format("row {}: {}", row, text));
    else
      fail(text);
  }
  if (!any) no_reader("cannot be run");
  fail(fmt::format("the Python that reads it ended after {} rows", row - groups.first_row));
}

bool is_parquet(const InputFile& file) {
  return has_extension(file.path.string(), ".parquet");
}

}  // namespace

std::vector<RowGroups> row_groups(const InputFile& file, int64_t least_bytes) {
  std::vector<RowGroups> all;
  if (!is_parquet(file)) return all;
  int64_t group = 0, next_row = 1;
  read_table(file, "groups", {}, 'G', [&](std::string_view text, int64_t) {
    int64_t rows = 0, bytes = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rows);
    if (error == std::errc()) std::from_chars(end + 1, text.data() + text.size(), bytes);
    if (all.empty() || all.back().bytes >= least_bytes)
      all.push_back({.first = group, .count = 0, .first_row = next_row, .rows = 0, .bytes = 0});
    RowGroups& unit = all.back();
    ++unit.count, ++group;
    unit.rows += rows, unit.bytes += bytes, next_row += rows;
  });
  return all;
}

void for_each_row(const InputFile& file, const TableRequest& request, const RowVisitor& visit) {
  read_table(file, is_parquet(file) ? "parquet" : "arrow", request, 'R', visit);
}

}  // namespace hydrac::runtime
