#pragma once

namespace hydrac::hub {

// Python. Arguments: fetch KIND REPOSITORY REVISION SUBSET SPLIT, create REPOSITORY, or upload
// FOLDER REPOSITORY. Prints one of
//   P and the commit's hash, then files of the snapshot, a line each: all are there
//   L and the same: what a cache holds, which could not be compared with the hub
//   U and an address: of the repository, of the commit
//   M without huggingface_hub, E and a sentence otherwise
extern const char* const kClientScript;

}  // namespace hydrac::hub
