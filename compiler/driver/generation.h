// Sizes of programs that generate with a cache: prompts of a prefill, the logits that decode keeps, pages of
// the cache.
#pragma once
#include <cstdint>
#include <optional>

#include "models/transformer.h"
#include "spec/spec.h"

namespace hydrac::driver {

// Prompts of so many tokens that one prefill of `sequences` computes.
int64_t prompts_at_once(const spec::Spec& spec, int64_t sequences, int64_t prompt_tokens);
// The largest logits that decode finds (models::Generation::top).
int64_t top_logits(const spec::Spec& spec);

// Tokens of a page of a cache in pages: a tile of keys on every target is of one page.
inline constexpr int64_t kPageTokens = 64;
// The keys and values of such a page, of all layers.
int64_t page_bytes(const spec::Spec& spec);

// The generation of the replies that objective.name samples in each step, as one batch; nullopt without an
// objective.
std::optional<models::Generation> generation_of_replies(const spec::Spec& spec);

}  // namespace hydrac::driver
