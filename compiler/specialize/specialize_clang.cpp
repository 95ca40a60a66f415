#include <clang/AST/DeclTemplate.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "specialize/bind.h"
#include "specialize/constants.h"
#include "specialize/pieces.h"
#include "specialize/specialize.h"
#include "specialize/tidy.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

// What code is specialized for at once: what differs between them stays as it is. C++ is compiled for another
// machine's vectors than this one's, so all widths are looked at.
std::vector<std::string> processors_of(Dialect dialect) {
  if (dialect == Dialect::cuda) return {"x86-64"};
  return {"x86-64", "x86-64-v3", "x86-64-v4"};
}

std::string opening(const std::vector<std::string>& space) {
  return space.empty() ? "" : fmt::format("namespace {} {{\n\n", fmt::join(space, "::"));
}
std::string closing(const std::vector<std::string>& space) {
  return space.empty() ? "" : fmt::format("}}  // namespace {}\n\n", fmt::join(space, "::"));
}

// The comment that a file opens with.
std::string head_comment(const std::string& text) {
  std::size_t end = 0;
  while (text.compare(end, 2, "//") == 0) end = next_line(text, end);
  return end == 0 ? "" : kHeadMark + text.substr(0, end) + "\n";
}

void expect_no_problems(const std::vector<Problem>& problems, const std::string& what) {
  if (problems.empty()) return;
  std::string message = what + ":";
  for (const Problem& problem : problems) message += "\n  " + text_of(problem);
  throw std::logic_error(message);
}

// What several file names begin with, up to an underscore.
std::string common_prefix(const std::vector<std::string>& names) {
  std::string prefix = names.front();
  for (const std::string& name : names) {
    while (!name.starts_with(prefix)) prefix.pop_back();
  }
  const std::size_t underscore = prefix.rfind('_');
  return underscore == std::string::npos ? "" : prefix.substr(0, underscore + 1);
}

class Specializer {
 public:
  explicit Specializer(const SpecializeRequest& request)
      : request_(request), scope_(files(request), static_cast<int>(request.entries.size())) {}

  Specialized run() {
    const std::vector<std::string> processors = processors_of(request_.dialect);
    std::vector<std::unique_ptr<View>> views;
    Bindings bindings;
    for (const std::string& processor : processors) views.push_back(look(processor, bindings));
    Proposals proposals;
    Pieces pieces;
    for (const auto& view : views) {
      std::vector<Decl*> declarations;
      std::set<const Decl*> seen;
      for (int entry = 0; entry < entries(); ++entry) {
        for (Decl* decl : view->instances[entry].declarations) {
          if (seen.insert(decl).second) declarations.push_back(decl);
        }
        find_pieces(view->places, view->instances[entry], view->preprocessing, !is_cuda(), entry, pieces);
      }
      propose_bindings(view->places, declarations, request_.scope, bindings, proposals);
    }
    const std::string text = assembled(views[0]->preprocessing, pieces, proposals.agreed());
    ParseRequest parse{{kSource, ""}, request_.dialect, request_.capability, {}, {}};
    for (const SourceFile& file : request_.headers) {
      if (scope_.number_of(file.path) < 0) parse.headers.push_back(file);
    }
    return in_parts(tidied(text, parse, processors, roots_));
  }

 private:
  // The entries as one processor sees them.
  struct View {
    View(std::unique_ptr<Ast> tree, const Scope& scope) : ast(std::move(tree)), places(*ast, scope) {}
    std::unique_ptr<Ast> ast;
    Places places;
    Preprocessing preprocessing;
    std::vector<Instances> instances;  // by entry
  };

  static constexpr const char* kSource = "specialized";  // that includes all entries

  bool is_cuda() const { return request_.dialect == Dialect::cuda; }
  int entries() const { return static_cast<int>(request_.entries.size()); }

  static std::vector<SourceFile> files(const SpecializeRequest& request) {
    std::vector<SourceFile> files = request.entries;
    for (const SourceFile& file : request.headers) {
      if (std::find(request.library.begin(), request.library.end(), file.path) == request.library.end())
        files.push_back(file);
    }
    return files;
  }

  std::unique_ptr<View> look(const std::string& processor, Bindings& bindings) {
    ParseRequest parse{{kSource, ""}, request_.dialect, request_.capability, request_.headers, {}, processor};
    std::string names;
    for (const SourceFile& entry : request_.entries) {
      parse.source.text += fmt::format("#include \"{}\"\n", entry.path);
      names += (names.empty() ? "" : ", ") + entry.path;
      parse.headers.push_back(entry);
    }
    PreprocessingWatch watch(scope_);
    auto view = std::make_unique<View>(
        Ast::parse(parse, [&](Preprocessor& preprocessor) { watch.attach(preprocessor); }), scope_);
    expect_no_problems(view->ast->problems(), "templates do not parse with " + names);
    view->preprocessing = watch.result(view->places);
    for (int entry = 0; entry < entries(); ++entry) {
      const auto is_of_entry = [&](const Decl* decl) {
        const auto place = view->places.of_use(decl->getLocation());
        if (!place || place->file != entry) return false;
        if (const auto* named = dyn_cast<NamedDecl>(decl)) roots_.insert(named->getNameAsString());
        return true;
      };
      view->instances.push_back(instances_of(view->places, is_of_entry, bindings));
    }
    return view;
  }

  // A part for what is shared, and one for each entry.
  std::vector<std::string> part_names() const {
    std::vector<std::string> stems, names = {""};
    for (const SourceFile& entry : request_.entries) {
      const std::size_t begin = entry.path.rfind('/') + 1;
      stems.push_back(entry.path.substr(begin, entry.path.rfind('.') - begin));
    }
    const std::size_t prefix = common_prefix(stems).size();
    for (const std::string& stem : stems) names.push_back(entries() == 1 ? "" : stem.substr(prefix));
    return names;
  }

  int part_of(const Piece& piece) const {
    return piece.entries.size() > 1 ? 0 : 1 + *piece.entries.begin();
  }

  std::string assembled(const Preprocessing& preprocessing, Pieces& pieces,
                        std::map<int, std::vector<Edit>> edits) const {
    for (const auto& [place, member] : pieces.members) {
      if (!member.is_reached) edits[place.file].push_back({place.offset, member.end, ""});
    }
    for (auto& [file, of_file] : pieces.of_file) {
      std::sort(of_file.begin(), of_file.end(),
                [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
      std::vector<Edit>& all = edits[file];
      if (is_cuda()) {
        const std::vector<Edit> of_conditionals = conditional_edits(preprocessing, file, scope_.text(file));
        all.insert(all.end(), of_conditionals.begin(), of_conditionals.end());
      }
      if (const auto found = preprocessing.expansions.find(file); found != preprocessing.expansions.end())
        all.insert(all.end(), found->second.begin(), found->second.end());
    }
    std::vector<TextPart> parts;
    for (const std::string& name : part_names()) parts.push_back({name, ""});
    for (const int file : preprocessing.files) {
      if (scope_.is_entry(file)) continue;
      for (std::size_t part = 0; part < parts.size(); ++part)
        parts[part].text += text_of_file(file, static_cast<int>(part), pieces.of_file[file], edits[file]);
    }
    const std::vector<NamedConstants> named = name_constants(parts);
    std::string text = includes(preprocessing.includes);
    for (int part = 0; part <= entries(); ++part) {
      text += fmt::format("{0}\n{1}{2}\n{3}\n{4}{0}\n", kPartMark, opening({request_.scope}),
                          named[part].declarations, named[part].text, closing({request_.scope}));
      if (part > 0) text += text_of_file(part - 1, part, pieces.of_file[part - 1], edits[part - 1]);
    }
    return text;
  }

  // What assembled() put together.
  Specialized in_parts(const std::string& text) const {
    std::vector<std::string> parts(1);
    const std::string mark = kPartMark;
    std::size_t at = 0;
    for (std::size_t next; (next = text.find(mark, at)) != std::string::npos; at = next + mark.size()) {
      parts.back() = text.substr(at, next - at);
      parts.emplace_back();
    }
    parts.back() = text.substr(at);
    const auto inside = [&](const std::string& part) {
      const std::string begin = opening({request_.scope}), end = closing({request_.scope});
      const std::size_t from = part.find(begin), to = part.rfind(end.substr(0, end.size() - 1));
      return from == std::string::npos ? "" : part.substr(from + begin.size(), to - from - begin.size());
    };
    // includes, shared, nothing, and for each entry: own, text
    Specialized result{included(parts[0]), inside(parts[1]), {}};
    for (int entry = 0; entry < entries(); ++entry)
      result.entries.push_back({inside(parts[3 + 2 * entry]), parts[4 + 2 * entry]});
    return result;
  }

  static std::vector<std::string> included(const std::string& lines) {
    std::vector<std::string> names;
    const std::string directive = "#include ";
    for (std::size_t at = 0; at < lines.size(); at = next_line(lines, at)) {
      if (lines.compare(at, directive.size(), directive) != 0) {
        names.emplace_back();
      } else {
        at += directive.size();
        names.push_back(lines.substr(at, lines.find('\n', at) - at));
      }
    }
    return names;
  }

  // The standard library's first.
  static std::string includes(std::vector<std::string> names) {
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return std::pair(a[0] != '<', a) < std::pair(b[0] != '<', b);
    });
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i > 0 && names[i][0] != names[i - 1][0]) text += "\n";
      text += "#include " + names[i] + "\n";
    }
    return text;
  }

  // What of a file belongs to a part.
  std::string text_of_file(int file, int part, const std::vector<Piece>& pieces,
                           const std::vector<Edit>& edits) const {
    const std::string& text = scope_.text(file);
    const auto is_of = [&](int wanted) {
      return [&, wanted](const Piece& piece) { return part_of(piece) == wanted; };
    };
    if (std::none_of(pieces.begin(), pieces.end(), is_of(part))) return "";
    const bool is_first = part == 0 || std::none_of(pieces.begin(), pieces.end(), is_of(0));
    std::string result = scope_.is_entry(file) || !is_first ? "" : head_comment(text);
    std::vector<std::string> space;
    std::size_t end = 0;
    for (const Piece& piece : pieces) {
      if (part_of(piece) != part) continue;
      if (piece.space != space) {
        result += closing(space) + opening(piece.space);
        space = piece.space;
      } else if (end > 0 && piece.begin >= end && text.substr(end, piece.begin - end) == "\n") {
        result.pop_back();  // the two stand together
      }
      result += piece.comment + edited(text, piece.begin, piece.end, edits) + "\n\n";
      end = piece.end;
    }
    return result + closing(space);
  }

  const SpecializeRequest& request_;
  const Scope scope_;
  std::set<std::string> roots_;  // what the entries declare
};

}  // namespace

Specialized specialize(const SpecializeRequest& request) {
  return Specializer(request).run();
}

}  // namespace hydrac::specialize
