// The verbs of the command line. Each is one file of this folder; verbs.cpp is the table.
#pragma once
#include <string_view>
#include <vector>

#include "cli/input/arguments.h"
#include "runtime/app/exit_code.h"

namespace hydrac::cli {

inline constexpr int kFine = runtime::kExitFine, kFoundWanting = 1, kBadInput = runtime::kExitBadInput;

// Thrown where the user has been told what is wrong already; only the exit code is left.
struct Reported {
  int exit_code;
};

struct Verb {
  std::string_view name;   // may be two words: "data show"
  std::string_view usage;  // what follows the name
  std::string_view help;
  std::vector<Option> options;
  int (*run)(const Arguments&);  // the exit code
};

const std::vector<Verb>& verbs();  // `run` is the first
// Takes the verb, one word or two, from the front of `words`. Null, and nothing is taken, if there is none.
const Verb* take_verb(std::vector<std::string>& words);
// The second words of the verbs that begin with `word`.
std::vector<std::string> second_words(const std::string& word);
// True for the path of a spec, which runs without a verb.
bool looks_like_spec(const std::string& word);

// The exit code of a whole command line, argv[1] onwards.
int main(const std::vector<std::string>& words);

int run_verb(const Arguments&);
int quickstart_verb(const Arguments&);
int init_verb(const Arguments&);
int check_verb(const Arguments&);
int explain_verb(const Arguments&);
int emit_verb(const Arguments&);
int build_verb(const Arguments&);
int diff_verb(const Arguments&);
int verify_verb(const Arguments&);
int bench_verb(const Arguments&);
int tune_verb(const Arguments&);
int report_verb(const Arguments&);
int data_prepare_verb(const Arguments&);
int data_show_verb(const Arguments&);
int sample_verb(const Arguments&);
int export_verb(const Arguments&);
int merge_verb(const Arguments&);
int schema_verb(const Arguments&);
int keys_verb(const Arguments&);
int completion_verb(const Arguments&);
int docs_verb(const Arguments&);
int models_verb(const Arguments&);

// The two forms of diff.
int diff_folder(const Arguments&, const std::string& folder);
int diff_specs(const Arguments&);

}  // namespace hydrac::cli
