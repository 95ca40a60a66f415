// `hydrac report`: a page for a browser, complete in itself. The page's own files are in cli/report_page.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "driver/memory_limit.h"

namespace hydrac::cli {

struct ReportPageFile {
  const char* path;
  const char* text;
};
const std::vector<ReportPageFile>& report_page_files();

// Contents of the page, under "kind": "run", "spec", "ablation" or "bench".
using ReportData = nlohmann::ordered_json;

// From run folders, one or several: metrics.jsonl and spec.yaml. InputError if a file is missing or a line is
// no record.
ReportData run_report(const std::vector<std::string>& folders);
ReportData spec_report(const driver::Compiled& compiled, const driver::MemoryLimit& limit);
// From a file that `hydrac bench --json` wrote, with or without --ablate. InputError if it is none.
ReportData table_report(const std::string& file);

// The page: no other file and no network is needed, and nothing in `data` can be taken for markup.
std::string report_page(const ReportData& data);

// True if a file's text is such a page.
bool is_report_page(const std::string& text);

}  // namespace hydrac::cli
