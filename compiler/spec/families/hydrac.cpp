// Models that Hugging Face has no name for: the spec's keys, and Llama's names of
// tensors.
#include "spec/families/list.h"
#include "spec/families/rows.h"
#include "spec/hugging_face/hf_keys.h"

namespace hydrac::spec {
namespace {

void read_all(HfKeys& keys, const FamilyRow&) {
  for (const Entry& entry : keys.config().entries) {
    keys.take(entry.key);
    if (entry.key != "model_type" && entry.key != "from" && entry.key != "weights" &&
        !HfKeys::is_irrelevant(entry.key))
      keys.set(entry.key, entry.where, entry.value);
  }
}

}  // namespace

Family own_models() {
  return {.model_type = "hydrac",
          .name = "hydrac",
          .rows = {{.theirs = "", .ours = "", .value = "", .read = read_all}},
          .modules = llama_modules()};
}

}  // namespace hydrac::spec
