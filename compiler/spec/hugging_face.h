// Which model of Hugging Face's a spec describes, and where there is none, the key that prevents it.
#pragma once
#include <string>

#include "spec/spec.h"

namespace hydrac::spec {

// A bias or position embedding that the family has and the spec's model lacks is no obstacle: stored as zeros
// it adds nothing.
struct HuggingFaceModel {
  std::string family;  // config.json's model_type: "gpt2", "llama", "qwen2", "qwen3"; "" for none
  std::string key;     // with no family: the key that prevents it ("model.position")
  std::string reason;  // and why ("GPT-2 has no rope, and Llama and Qwen have no layernorm")
};

HuggingFaceModel hugging_face_model(const Spec& spec);

// For people, one line: what transformers makes of this spec's checkpoints; of `adapters`, PEFT.
std::string describe(const HuggingFaceModel& model, bool adapters);

}  // namespace hydrac::spec
