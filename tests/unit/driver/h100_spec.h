// The spec that tests of the driver compile for an H100.
#pragma once
#include <string>
#include <vector>

#include "tests/unit/support/spec_of_text.h"

namespace hydrac::driver {

// A small model with `more`, a line of the spec, and key=value overrides.
inline spec::Spec h100_spec(const std::string& more, const std::vector<std::string>& overrides) {
  return test::spec_of_text(
      "name: test\n"
      "target: h100\n"
      "model: {hidden_size: 256, num_hidden_layers: 3, num_attention_heads: 4, vocab_size: 512}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 64, micro_batch_size: 16, max_steps: 10}\n" +
          more,
      overrides);
}

}  // namespace hydrac::driver
