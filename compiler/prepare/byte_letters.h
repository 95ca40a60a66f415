// The alphabet of byte-level BPE.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hydrac::prepare {

// The 256 bytes, each a string, in GPT-2's order: printing ones ('!' to '~' and Latin-1's), then the others.
const std::vector<std::string>& byte_letters();

// How tokenizer.json writes `bytes`: each byte as a letter. Printing bytes are themselves; the others are
// U+0100 and on, in order.
std::string in_letters(std::string_view bytes);

}  // namespace hydrac::prepare
