// A first spec for somebody's data and hardware: what `hydrac init` chooses, by planning candidates.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hydrac::cli {

// The presets (specs/presets) and the texts that a starter is filled into (cli/init), inside the binary.
struct StarterFile {
  const char* path;
  const char* text;
};
const std::vector<StarterFile>& presets();
const std::vector<StarterFile>& starter_texts();

enum class StarterTask { characters, language, series, finetune };

struct StarterRequest {
  StarterTask task = StarterTask::characters;
  std::string target;                // a name of targets.def
  bool for_this_machine = false;     // which the target is: the spec says auto
  std::string data;                  // a file or a glob
  std::string tokenizer;             // language: byte, or a tokenizer.json
  std::string model;                 // finetune: a folder as Hugging Face publishes models, or hf:OWNER/NAME
  std::vector<std::string> predict;  // series: columns; empty: the last one
  int64_t classes = 0;               // series: > 0 makes it a classification
  std::string file;                  // where the spec will lie; its name is the run's
};

struct Starter {
  std::string text;                  // of the spec
  std::vector<std::string> reasons;  // lines for people: what was chosen and why
};

// runtime::InputError for a target with unknown memory, missing data, model or columns, and if no model fits.
Starter make_starter(const StarterRequest& request);

// Columns and size of a request's data.
struct StarterData {
  int64_t bytes = 0;
  int64_t tokens = 0;                  // about; of series: numbers
  int64_t rows = 0;                    // series
  bool items = false;                  // text: it is JSONL or JSON
  bool messages = false;               // the first items are conversations
  std::vector<std::string> features;   // series: numeric columns that are not predicted
  std::vector<std::string> predicted;  // series
  std::vector<std::string> left_out;   // series: columns that hold text
};
StarterData look_at_data(const StarterRequest& request);

}  // namespace hydrac::cli
