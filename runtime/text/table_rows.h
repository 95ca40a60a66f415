// Rows of Parquet and Arrow files. A python3 with pyarrow reads them, in a process of its own: batch by
// batch, so that its memory is bounded.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/input_files.h"

namespace hydrac::runtime {

// Row groups of a table, the units of a Parquet file.
struct RowGroups {
  int64_t first = 0, count = 0;
  int64_t first_row = 1;  // number of the first one's first row
  int64_t rows = 0;
  int64_t bytes = 0;  // contents of all columns, not compressed
};

// Groups in order, as few as have at least `least_bytes` of contents together. Empty for Arrow files, whose
// batches are read from the beginning. InputError as below.
std::vector<RowGroups> row_groups(const InputFile& file, int64_t least_bytes);

struct TableRequest {
  std::string text_key;             // the column to read, or its first part before a dot; empty: all columns
  std::optional<RowGroups> groups;  // those to read; absent: all rows
};

// Visits rows in order, as JSON objects of the columns; fields that are null are left out, and so are columns
// of bytes where all are asked for. `row` counts from 1. InputError that names the file: no table, damaged,
// no such column, contents that JSON cannot say, no python3 with pyarrow ($HYDRAC_PYTHON names another one).
using RowVisitor = std::function<void(std::string_view json, int64_t row)>;
void for_each_row(const InputFile& file, const TableRequest& request, const RowVisitor& visit);

}  // namespace hydrac::runtime
