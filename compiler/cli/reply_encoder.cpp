#include "cli/reply_encoder.h"

#include <fmt/format.h>

#include <memory>

#include "cli/spec_input.h"
#include "cli/verb.h"
#include "runtime/data/hash.h"
#include "runtime/error.h"
#include "runtime/text/wordpiece.h"
#include "runtime/train/initial_weights.h"

namespace hydrac::cli {

namespace {

constexpr const char* kKey = "objective.embed";

// What `work` finds wrong with the encoder's files is said at the key that names them.
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

std::string identity_of(const spec::Encoder& encoder, const std::string& tokenizer,
                        const std::string& weights) {
  const uint64_t shape = runtime::Hash64()
                             .add(static_cast<uint64_t>(encoder.num_attention_heads))
                             .add(static_cast<uint64_t>(encoder.max_tokens))
                             .add(static_cast<uint64_t>(encoder.hidden_act))
                             .add(uint64_t{encoder.first_token})
                             .add(fmt::format("{}", encoder.norm_eps))
                             .value();
  return fmt::format("an encoder with fingerprint {}{}{:016x}", weights, tokenizer, shape);
}

}  // namespace

std::optional<OpenedEncoder> open_reply_encoder(const spec::Spec& spec) {
  const spec::Encoder* encoder = spec::encoder_of_replies(spec);
  if (encoder == nullptr) return std::nullopt;
  return at_the_key(spec, [&] {
    const auto tokenizer =
        std::make_shared<const runtime::WordPiece>(runtime::load_wordpiece(encoder->folder));
    if (tokenizer->vocab_size() > encoder->vocab_size)
      throw runtime::InputError(
          fmt::format("{}: the tokenizer has the id {}, and vocab_size in config.json is {}", encoder->folder,
                      tokenizer->vocab_size() - 1, encoder->vocab_size));
    const std::string weights = runtime::WeightFiles(encoder->folder).fingerprint();
    const auto ids = [tokenizer](std::string_view text, int64_t most) {
      return tokenizer->encode(text, most);
    };
    return std::optional(OpenedEncoder{{encoder->folder, ids, encoder->first_token},
                                       identity_of(*encoder, tokenizer->fingerprint(), weights)});
  });
}

void require_reply_encoder(const spec::Spec& spec, runtime::StepProgram& program) {
  if (const spec::Encoder* encoder = spec::encoder_of_replies(spec))
    at_the_key(spec, [&] { runtime::WeightFiles(encoder->folder).check_encoder(program); });
}

}  // namespace hydrac::cli
