// The sentence encoder that objective.embed names: its files, opened and checked while errors can still point
// at the key.
#pragma once
#include <optional>

#include "runtime/program/step_program.h"
#include "runtime/train/generation/reply_encoder.h"
#include "spec/spec.h"

namespace hydrac::cli {

// The encoder that a program of the spec is compiled for, without its facts, because hydrac has read the
// folder by then. No folder if the spec has no encoder.
runtime::EncoderFolder encoder_folder(const spec::Spec& spec);

// Opens tokenizer and weights of the spec's encoder, if there is one. Reported if they cannot be read, or if
// the tokenizer does not fit config.json's vocabulary.
std::optional<runtime::OpenedEncoder> open_reply_encoder(const spec::Spec& spec);

// Checks that its weights are those that the compiled program needs. Reported if not.
void require_reply_encoder(const spec::Spec& spec, runtime::StepProgram& program);

}  // namespace hydrac::cli
