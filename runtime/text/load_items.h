// From the records of JSONL files and JSON arrays to marked tokens, through the cache.
#pragma once
#include <memory>

#include "runtime/data/items.h"
#include "runtime/text/item_encoder.h"
#include "runtime/text/load_tokens.h"

namespace hydrac::runtime {

// An item a record, in order. InputError as ItemEncoder's, naming file and line, and for files of other
// kinds.
std::shared_ptr<const ItemStore> load_items(const CorpusOptions& options, const ItemFormat& format,
                                            const Tokenizer& tokenizer);

}  // namespace hydrac::runtime
