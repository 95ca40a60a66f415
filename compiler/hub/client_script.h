#pragma once

namespace hydrac::hub {

// Python. Arguments: fetch KIND REPOSITORY REVISION SUBSET SPLIT, create REPOSITORY, or upload
// FOLDER REPOSITORY. Prints one of these:
//   P and the commit's hash, then the snapshot's files, a line each: all are present.
//   L and the same, from a cache: the hub could not be reached to compare.
//   U and an address: of the repository, or of the commit.
//   M without huggingface_hub, E and a sentence otherwise
extern const char* const kClientScript;

}  // namespace hydrac::hub
