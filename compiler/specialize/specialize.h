// Turns templates, and the constants that a program gives them, into one piece of plain source that looks as
// if it had been written for these constants.
#pragma once
#include <string>
#include <vector>

#include "specialize/parse.h"

namespace hydrac::specialize {

// The template headers that are the same for every program. Their declarations are in namespace hydrac, or in
// a nested one other than hydrac::cuda and hydrac::cpu, because specialized text has left those two.
std::vector<std::string> library_headers();

struct SpecializeRequest {
  // Code that instantiates the templates: kernels or functions over the headers, such as a __global__
  // wrapper. All its declarations are kept. Several entries are one program's uses of one template, and share
  // their common code.
  std::vector<SourceFile> entries;
  std::vector<SourceFile> headers = template_headers();
  // The `headers` that stay #include lines; the others are specialized into the text.
  std::vector<std::string> library = library_headers();
  Dialect dialect = Dialect::cuda;
  // For cuda: code for other architectures is left out. For cpp the text serves every processor.
  int capability = 90;
  // The namespace of the result, instead of the templates' `hydrac::cuda` or `hydrac::cpu`. It must be nested
  // in `hydrac`, whose names the text uses unqualified.
  std::string scope;
};

// Plain source in parts, none of them formatted: each is meant to become a part of a file.
struct Specialized {
  struct Entry {
    // Code that only this entry uses, for the inside of the namespace, after `shared`. Code that other
    // entries have in another version is in an unnamed namespace, because entries go to different files.
    std::string own;
    std::string text;  // what it declares, which names the rest with its namespace
  };
  std::vector<std::string> includes;  // "<cstdint>"; "" is an empty line
  std::string shared;                 // what several entries use, for the inside of the namespace
  std::vector<Entry> entries;         // in the order of the request
};

// A parameter with one value in all code that the entries reach becomes a named constant (`kHeadDim`) or a
// type; one that varies stays a template parameter. Constant conditions are pruned, unused code is dropped,
// comments stay, macros of the templates are expanded. The result computes the same bits. std::logic_error,
// with the places, if the entries do not parse, if the result would not, or if a class in use has friends.
// The result does not parse, for example, if a template's body uses a class as a whole that is only declared
// there: define it first.
Specialized specialize(const SpecializeRequest& request);

}  // namespace hydrac::specialize
