// The kinds of tokenizers beside bytes: characters, and Hugging Face's tokenizer.json with byte-level BPE.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/data/tokenizer.h"

namespace hydrac::runtime {

// The sorted code points of a corpus are ids 0, 1, ... (nanoGPT's character model).
// `for_each_text` calls its argument with every document. Throws InputError for malformed UTF-8 and for an
// empty corpus.
using TextVisitor = std::function<void(std::string_view text)>;
std::unique_ptr<Tokenizer> make_char_tokenizer(const std::function<void(const TextVisitor&)>& for_each_text);

// Reads what to_json() wrote, or a Hugging Face tokenizer.json (byte-level BPE: GPT-2, Llama 3, Qwen 2 and 3,
// ...; BPE with byte_fallback: Llama 2, Mistral 7B). `shown_as` names the source in messages. Truncation,
// padding and post-processing stored in the file are not applied: they shape single prompts, not corpora.
// `declared`: what other files say of the tokens that end a text. Throws InputError for anything malformed or
// not supported.
std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view json, const std::string& shown_as,
                                           const EndDeclarations& declared = {});
// The same with what the files beside it declare. `turn_end`: the token that ends a turn of the chat template
// in use, which ends a text too.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& file,
                                          const std::string& turn_end = "");

}  // namespace hydrac::runtime
