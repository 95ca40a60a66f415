// Makes of templates and the constants that a program gives them one piece of plain source, as if it had been
// written for these constants.
#pragma once
#include <string>
#include <vector>

#include "specialize/parse.h"

namespace hydrac::specialize {

// The headers of the templates that are the same for every program. What they declare is in namespace hydrac,
// or in one within that is neither hydrac::cuda nor hydrac::cpu: specialized text has left these.
std::vector<std::string> library_headers();

struct SpecializeRequest {
  // Code that instantiates the templates: kernels or functions over the headers, such as a __global__
  // wrapper. All that they declare is kept. Several are one program's uses of one template, and share what
  // they have in common.
  std::vector<SourceFile> entries;
  std::vector<SourceFile> headers = template_headers();
  // Those of `headers` that stay #include lines; the others are specialized into the text.
  std::vector<std::string> library = library_headers();
  Dialect dialect = Dialect::cuda;
  // For cuda: code for other architectures is left out. For cpp the text serves every processor.
  int capability = 90;
  // The namespace that everything lies in, instead of the templates' `hydrac::cuda` or `hydrac::cpu`. It must
  // be one within `hydrac`, whose names the text uses unqualified.
  std::string scope;
};

// Plain source in parts, none of them formatted: each is meant to become a part of a file.
struct Specialized {
  struct Entry {
    // Code that it alone uses, for the inside of the namespace; stands behind `shared`. Code of which other
    // entries have other versions is within an unnamed namespace: entries are meant for different files.
    std::string own;
    std::string text;  // what it declares, which names the rest with its namespace
  };
  std::vector<std::string> includes;  // "<cstdint>"; "" is an empty line
  std::string shared;                 // what several entries use, for the inside of the namespace
  std::vector<Entry> entries;         // in the order of the request
};

// A parameter that has one value wherever the entries' code reaches becomes a named constant (`kHeadDim`) or
// the type it stands for; one that varies stays a template parameter. Conditions that are constant then are
// pruned, what nothing uses is dropped, comments stay, macros of the templates are expanded. Computes the
// same bits. Throws std::logic_error, with the places, when the entries do not parse, the result would not,
// or a class in use has friends. A class that is only declared where code uses it as a whole, which a
// template's body may do, is a case of the second: define it first.
Specialized specialize(const SpecializeRequest& request);

}  // namespace hydrac::specialize
