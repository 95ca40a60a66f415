// settings.cpp, train.cpp and library.cpp of an emitted program: what the spec says about a run, and how it
// begins.
#pragma once
#include <string>

#include "driver/compile.h"
#include "runtime/app/train_run.h"

namespace hydrac::emit {

// The body of settings.cpp within the program's namespace: a function train_settings().
std::string settings_source(const runtime::TrainSettings& settings);
// The lines of identity.inc, a pair of literals each: what must be the same when a run is resumed.
std::string identity_table(const runtime::TrainSettings& settings);
// The reader of the data, and therefore a library that the program links.
enum class DataKind { shards, text, series };
DataKind data_kind(const runtime::DataSettings& data, const spec::Spec& spec);
std::string corpus_header(DataKind kind);  // "runtime/text/text_corpus.h"

// Definitions outside of namespaces: main(), and train_create() of the library.
std::string main_source(const spec::Spec& spec, DataKind kind);
std::string library_source(const spec::Spec& spec);

// A C++ string literal with these bytes, on several lines where the text has some. Nothing in it can end the
// literal.
std::string string_literal(const std::string& text);

}  // namespace hydrac::emit
