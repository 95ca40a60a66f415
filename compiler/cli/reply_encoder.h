// The encoder of sentences that objective.embed names: its files, opened and checked where errors can still
// be said at the key's place.
#pragma once
#include <optional>
#include <string>

#include "runtime/train/objective.h"
#include "spec/spec.h"

namespace hydrac::cli {

struct OpenedEncoder {
  runtime::ReplyEncoder encoder;
  std::string identity;  // of what it makes of texts, wherever its folder lies: that of the key in a run's
};

// Opens tokenizer and weights of the spec's encoder, if there is one. Reported where they cannot be read, or
// the tokenizer does not fit config.json's vocabulary.
std::optional<OpenedEncoder> open_reply_encoder(const spec::Spec& spec);

// That its weights are those that the compiled program wants. Reported where they are not.
void require_reply_encoder(const spec::Spec& spec, runtime::StepProgram& program);

}  // namespace hydrac::cli
