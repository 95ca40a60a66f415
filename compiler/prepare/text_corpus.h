// The documents of all sources as one text.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/input_files.h"
#include "runtime/data/mapped_file.h"

namespace hydrac::prepare {

// A source, as one argument of the command line names it.
struct Source {
  std::string name;
  std::vector<runtime::InputFile> files;
  double weight = 1;  // how often its training documents are repeated: 2 twice, 0.5 half of them
};

enum class Dedupe { none, lines, documents };

// Counts of a source: what reading found, and what it kept.
struct SourceCounts {
  int64_t documents = 0, bytes = 0;  // kept
  int64_t dropped_documents = 0, dropped_lines = 0, dropped_bytes = 0;
};

struct TextCorpus {
  std::shared_ptr<const runtime::MappedFile> text;  // the documents, one behind another
  std::vector<uint64_t> ends;                       // of each document, in bytes
  std::vector<uint32_t> file_of;                    // by document: index in `files`
  std::vector<std::string> files;                   // names, of all sources in order
  std::vector<uint32_t> source_of;                  // by file
  std::vector<SourceCounts> counts;                 // by source

  size_t size() const { return ends.size(); }
  uint64_t begin(size_t document) const { return document == 0 ? 0 : ends[document - 1]; }
  std::string_view document(size_t index) const {
    return text->bytes().substr(begin(index), ends[index] - begin(index));
  }
};

struct ReadOptions {
  std::string text_key = "text";
  Dedupe dedupe = Dedupe::none;
  std::optional<std::string> end_of_text;  // as text: documents end there, and it is left out
  bool utf8 = true;                        // malformed UTF-8 is an error
  int threads = 1;
  std::filesystem::path scratch;                           // a file that is made there, and is gone again
  std::function<void(int64_t done, int64_t of)> progress;  // bytes of the files; may be empty
};

// Reads text, JSONL and JSON, packed by gzip or not. Deduplication drops a document, or a line of one, that
// equals an earlier one in the order of `sources`, byte for byte except for the line's end. Lines of white
// space stay; a document with no other lines left is dropped. Texts are compared by a hash of 128 bits.
// InputError as for_each_document(), and for a file of two sources.
TextCorpus read_corpus(const std::vector<Source>& sources, const ReadOptions& options);

// Positions at which several threads may cut the text, about a MiB apart, with 0 and its end: ends of
// documents, and with `within_documents` also ends of lines after a printing ASCII character. GPT-2's pattern
// always splits there: no alternative continues from such a character to white space, and none looks back.
std::vector<uint64_t> cut_places(const TextCorpus& corpus, bool within_documents);

// The document that holds the byte at `place`.
size_t document_at(const TextCorpus& corpus, uint64_t place);

}  // namespace hydrac::prepare
