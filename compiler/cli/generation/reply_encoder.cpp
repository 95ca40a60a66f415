#include "cli/generation/reply_encoder.h"

#include <fmt/format.h>

#include "cli/input/spec_input.h"
#include "cli/verb.h"
#include "runtime/data/hash.h"
#include "runtime/encoder/open_encoder.h"
#include "runtime/error.h"
#include "runtime/train/initial_weights.h"

namespace hydrac::cli {

namespace {

constexpr const char* kKey = "objective.embed";

// Errors of `work` about the encoder's files are said at the key that names them.
template <class Work>
auto at_the_key(const spec::Spec& spec, const Work& work) {
  try {
    return work();
  } catch (const runtime::InputError& error) {
    diag::Diagnostics diagnostics;
    diagnostics.report(diag::Kind::encoder_unusable, spec.where(kKey), error.what());
    print_found_late(diagnostics);
    throw Reported{kBadInput};
  }
}

}  // namespace

runtime::EncoderFolder encoder_folder(const spec::Spec& spec) {
  const spec::Encoder* there = spec::encoder_of_replies(spec);
  if (there == nullptr) return {};
  const spec::Encoder& encoder = *there;
  const uint64_t shape = runtime::Hash64()
                             .add(static_cast<uint64_t>(encoder.num_attention_heads))
                             .add(static_cast<uint64_t>(encoder.max_tokens))
                             .add(static_cast<uint64_t>(encoder.hidden_act))
                             .add(uint64_t{encoder.first_token})
                             .add(fmt::format("{}", encoder.norm_eps))
                             .value();
  return {encoder.folder, encoder.vocab_size, encoder.first_token, fmt::format("{:016x}", shape), {}};
}

std::optional<runtime::OpenedEncoder> open_reply_encoder(const spec::Spec& spec) {
  const runtime::EncoderFolder folder = encoder_folder(spec);
  if (folder.folder.empty()) return std::nullopt;
  return at_the_key(spec, [&] { return std::optional(runtime::open_encoder(folder)); });
}

void require_reply_encoder(const spec::Spec& spec, runtime::StepProgram& program) {
  if (const spec::Encoder* encoder = spec::encoder_of_replies(spec))
    at_the_key(spec, [&] { runtime::WeightFiles(encoder->folder).check_encoder(program); });
}

}  // namespace hydrac::cli
