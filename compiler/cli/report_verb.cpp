// `hydrac report`: a run, a spec or a table as a page for a browser.
#include <fmt/format.h>

#include <filesystem>

#include "cli/build_program.h"
#include "cli/input/spec_input.h"
#include "cli/output/program_memory.h"
#include "cli/report/report_page.h"
#include "cli/verb.h"
#include "runtime/base/quote.h"
#include "runtime/checkpoint/file_writer.h"
#include "runtime/data/source_kind.h"
#include "runtime/error.h"

namespace hydrac::cli {

namespace {

namespace fs = std::filesystem;
using runtime::has_extension;
using runtime::InputError;

constexpr size_t kMostRuns = 6;  // as many as have colors that can be told apart

ReportData spec_data(const Arguments& arguments) {
  std::optional<spec::Spec> spec = load(arguments);
  if (!spec) throw Reported{kBadInput};
  BuildOptions options = build_options(arguments);
  options.chosen = complete_for_planning(*spec, memory_option(arguments));
  options.offline = true;
  const PlannedProgram planned = plan_program(*spec, options);
  require_fit(planned.problem);
  return spec_report(planned.compiled, planned.limit);
}

ReportData report_data(const Arguments& arguments) {
  const std::vector<std::string>& of = arguments.positional;
  if (of.empty())
    throw InputError("report of what? Name a run's folder, a spec, or a table of `hydrac bench --json`");
  const bool spec = has_extension(of[0], ".yaml") || has_extension(of[0], ".yml");
  if (!spec && !arguments.overrides.empty())
    throw InputError(fmt::format("{}: keys can be changed of a spec only", arguments.overrides[0]));
  if (spec) return spec_data(arguments);
  if (has_extension(of[0], ".json")) {
    if (of.size() > 1) throw InputError(fmt::format("a page shows one table; {} is one too many", of[1]));
    return table_report(of[0]);
  }
  if (of.size() > kMostRuns)
    throw InputError(fmt::format("a page shows up to {} runs, not {}", kMostRuns, of.size()));
  return run_report(of);
}

// Only a page of hydrac's is replaced.
void require_page_or_nothing(const std::string& file) {
  if (!fs::exists(file)) return;
  if (fs::is_regular_file(file) && is_report_page(runtime::read_file(file))) return;
  throw InputError(
      fmt::format("{} is there already and is no report of hydrac's; -o FILE names another", file));
}

}  // namespace

int report_verb(const Arguments& arguments) {
  const std::string file = arguments.value("--output").value_or("report.html");
  require_page_or_nothing(file);
  const std::string page = report_page(report_data(arguments));
  runtime::replace_file(file, page);
  fmt::print("wrote {}: {} KB, opens in any browser\n", runtime::printable(file), page.size() / 1000);
  return kFine;
}

}  // namespace hydrac::cli
