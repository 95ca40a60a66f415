// The frame of an emitted file: where it comes from, includes, the program's namespace.
#pragma once
#include <string>
#include <vector>

#include "spec/spec.h"

namespace hydrac::emit {

struct SourceFile {
  std::string comment;                // one or more lines: what the file is for
  std::vector<std::string> includes;  // "<vector>" or "\"memory.h\"", in this order; "" is an empty line
  std::string body;                   // within the namespace
  std::string after;                  // behind it
};

// The C++ namespace of a spec's program: "gpt2_124m".
std::string namespace_of(const spec::Spec& spec);

// `spec_file`: the name that goes into "DO NOT EDIT".
std::string header_text(const spec::Spec& spec, const std::string& spec_file, const SourceFile& file);
std::string source_text(const spec::Spec& spec, const std::string& spec_file, const SourceFile& file);

// The two lines that say where a file comes from, each after `prefix`: "// ".
std::string provenance(const std::string& spec_file, const std::string& prefix);

}  // namespace hydrac::emit
