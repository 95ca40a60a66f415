// The Hugging Face model that a spec describes, or the key that prevents it.
#pragma once
#include <string>

#include "spec/hugging_face/family.h"

namespace hydrac::spec {

// A bias or position embedding that the family has and the spec's model lacks is no obstacle: stored as zeros
// it adds nothing.
struct HuggingFaceModel {
  const Family* family = nullptr;  // null for none
  std::string key;                 // with no family: the key that prevents it ("model.position")
  std::string reason;              // and why ("Qwen3, Qwen2, Llama and Mistral have rope")
};

// The first family whose rules all hold.
HuggingFaceModel hugging_face_model(const Spec& spec);

// The family of this spec's checkpoints: Hugging Face's, or our own.
const Family& family_of(const Spec& spec);

// For people, one line: what transformers makes of this spec's checkpoints; of `adapters`, PEFT.
std::string describe(const HuggingFaceModel& model, bool adapters);

// All rules as a table in Markdown, which docs/hugging-face.md has.
std::string hugging_face_rules();

// True if a tokenizer.json splits, normalizes and decodes text as Qwen2Tokenizer of transformers does, which
// is what AutoTokenizer gives a model of type qwen2 whatever its tokenizer.json says. false for a file that
// cannot be read.
bool is_qwen2_tokenizer(const std::string& path);

}  // namespace hydrac::spec
