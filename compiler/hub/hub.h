// Models and datasets by their names on Hugging Face's hub. Fetched files lie in Hugging Face's own cache
// folder, where its other programs find them too.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::hub {

// A key's need of a repository.
enum class Wanted {
  model,      // the folder, with weights
  config,     // the folder without weights
  tokenizer,  // its tokenizer.json, and what stands beside it
  dataset,    // the files of a split
};

// True for "hf:...".
bool is_name(std::string_view text);

// NAME of hf:OWNER/NAME...
std::string short_name(const std::string& name);

// The paths for `name`: a folder, a file, or a split's files. A name is hf:OWNER/NAME[@REVISION], for
// datasets followed by [/SUBSET][:SPLIT]; defaults are "main", the repository's default subset, and "train".
// Taken from the cache if it was fetched before; else a python3 with huggingface_hub fetches it, with
// progress on standard error. runtime::InputError: a sentence that does not repeat the name.
std::vector<std::string> paths_of(const std::string& name, Wanted wanted);

// Makes the model `repository`, OWNER/NAME, private, if it is not there. runtime::InputError with a sentence.
void create(const std::string& repository);
// Makes the files of `folder` a commit of it, whose address is returned. runtime::RunError with a sentence.
std::string upload(const std::string& folder, const std::string& repository);

}  // namespace hydrac::hub
