#include <clang/AST/DeclTemplate.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "specialize/bind.h"
#include "specialize/constants.h"
#include "specialize/pieces.h"
#include "specialize/sharing.h"
#include "specialize/specialize.h"
#include "specialize/tidy.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

// The processors that code is specialized for at once; parts that differ between them keep their #if. C++ is
// compiled for the vectors of other machines than this one, so all widths are parsed.
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

// The comment that a file opens with. A single line becomes a heading, because the next declaration has its
// own comment.
std::string head_comment(const std::string& text) {
  std::size_t end = 0;
  while (text.compare(end, 2, "//") == 0) end = next_line(text, end);
  std::string comment = text.substr(0, end);
  if (end > 0 && end == next_line(text, 0) && comment.starts_with("// ")) {
    while (comment.ends_with('\n') || comment.ends_with('.')) comment.pop_back();
    comment = "// ---- " + comment.substr(3) + "\n";
  }
  return kHeadMark + comment + "\n";
}

std::string word_at(const std::string& text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
    ++end;
  return text.substr(at, end - at);
}

void expect_no_problems(const std::vector<Problem>& problems, const std::string& what) {
  if (problems.empty()) return;
  std::string message = what + ":";
  for (const Problem& problem : problems) message += "\n  " + text_of(problem);
  throw std::logic_error(message);
}

class Specializer {
 public:
  explicit Specializer(const SpecializeRequest& request)
      : request_(request), scope_(files(request), static_cast<int>(request.entries.size())) {}

  Specialized run() {
    const std::vector<std::string> processors = processors_of(request_.dialect);
    std::vector<std::unique_ptr<View>> views;
    for (const std::string& processor : processors) views.push_back(look(processor));
    find_variants(views[0]->instances);
    std::vector<Proposals> proposals(request_.entries.size());
    for (const auto& view : views) {
      for (int entry = 0; entry < entries(); ++entry) {
        propose_bindings(view->places, view->instances[entry], request_.scope, bindings_, proposals[entry]);
        find_pieces(view->places, view->instances[entry], view->preprocessing, !is_cuda(), entry, pieces_);
      }
    }
    Proposals of_all;
    for (const Proposals& of_entry : proposals) of_all.add(of_entry);
    edits_.push_back(all_edits(of_all, std::nullopt, views[0]->preprocessing));
    for (int entry = 0; entry < entries(); ++entry)
      edits_.push_back(all_edits(proposals[entry], entry, views[0]->preprocessing));
    share();

    ParseRequest parse{{kSource, ""}, request_.dialect, request_.capability, {}, {}};
    for (const SourceFile& file : request_.headers) {
      if (scope_.number_of(file.path) < 0) parse.headers.push_back(file);
    }
    return in_parts(tidied(assembled(views[0]->preprocessing), parse, processors));
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

  std::unique_ptr<View> look(const std::string& processor) {
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
        if (const auto* named = dyn_cast<NamedDecl>(decl)) roots_[entry].insert(named->getNameAsString());
        return true;
      };
      view->instances.push_back(instances_of(view->places, is_of_entry, bindings_, entry));
    }
    return view;
  }

  // The entries that name the same function template.
  void find_variants(const std::vector<Instances>& instances) {
    std::map<Place, std::set<int>> callers;
    for (int entry = 0; entry < entries(); ++entry) {
      for (const Place& function : instances[entry].called) callers[function].insert(entry);
    }
    for (auto& [function, of_function] : callers) {
      if (of_function.size() > 1) bindings_.add_variants(std::move(of_function));
    }
  }

  // Edits of the files, as all entries want them or as one does.
  std::map<int, std::vector<Edit>> all_edits(const Proposals& proposals, std::optional<int> entry,
                                             const Preprocessing& preprocessing) const {
    std::map<int, std::vector<Edit>> edits = proposals.agreed();
    for (const auto& [place, member] : pieces_.members) {
      const bool is_reached = entry ? member.entries.contains(*entry) : !member.entries.empty();
      if (!is_reached) edits[place.file].push_back({place.offset, member.end, ""});
    }
    for (const auto& [file, of_file] : pieces_.of_file) {
      std::vector<Edit>& all = edits[file];
      if (is_cuda()) {
        const std::vector<Edit> of_conditionals = conditional_edits(preprocessing, file, scope_.text(file));
        all.insert(all.end(), of_conditionals.begin(), of_conditionals.end());
      }
      if (const auto found = preprocessing.expansions.find(file); found != preprocessing.expansions.end())
        all.insert(all.end(), found->second.begin(), found->second.end());
    }
    return edits;
  }

  void share() {
    std::vector<Candidate> candidates;
    std::vector<Piece*> all;
    for (auto& [file, of_file] : pieces_.of_file) {
      std::sort(of_file.begin(), of_file.end(),
                [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
      if (scope_.is_entry(file)) continue;
      const std::string& text = scope_.text(file);
      for (Piece& piece : of_file) {
        Candidate candidate{piece.names, words_of(edited(text, piece.begin, piece.end, edits_[0][file])),
                            static_cast<int>(piece.entries.size())};
        for (const Place& parameter : bindings_.bound_by_entry()) {
          if (parameter.file == file && parameter.offset >= piece.begin && parameter.offset < piece.end)
            candidate.differs =
                candidate.differs || candidate.words.contains(word_at(text, parameter.offset));
        }
        candidates.push_back(std::move(candidate));
        all.push_back(&piece);
      }
    }
    decide_sharing(candidates);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i]->is_shared = candidates[i].is_shared;
      has_versions_ = has_versions_ || (candidates[i].differs && candidates[i].entries > 1);
    }
  }

  // The entry of a part; nothing for the shared part.
  static bool is_of(const Piece& piece, std::optional<int> entry) {
    return entry ? !piece.is_shared && piece.entries.contains(*entry) : piece.is_shared;
  }

  // Entries stand in one source, one after another, unless two of them declare different things under one
  // name.
  Texts assembled(const Preprocessing& preprocessing) {
    const auto body_of = [&](std::optional<int> entry) {
      std::string body;
      for (const int file : preprocessing.files) {
        if (!scope_.is_entry(file)) body += text_of_file(file, entry);
      }
      return body;
    };
    const auto in_namespace = [&](const NamedConstants& constants) {
      return fmt::format("{0}\n{1}{2}\n{3}\n{4}{0}\n", kPartMark, opening({request_.scope}),
                         constants.declarations(), constants.text, closing({request_.scope}));
    };
    // Members of an entry's own classes would hide what is shared under their name.
    std::set<std::string> own_words;
    for (int entry = 0; entry < entries(); ++entry) own_words.merge(words_of(body_of(entry)));
    NamedConstants shared = name_constants(body_of(std::nullopt), {}, own_words);
    std::vector<NamedConstants> own;
    for (int entry = 0; entry < entries(); ++entry) own.push_back(name_constants(body_of(entry), shared));
    const bool clash = share_constants(shared, own) || has_versions_;
    Texts texts{includes(preprocessing.includes) + in_namespace(shared), {}};
    for (int entry = 0; entry < entries(); ++entry) {
      if (entry == 0 || clash) texts.own.emplace_back();
      texts.own.back().text += in_namespace(own[entry]) + text_of_file(entry, entry);
      texts.own.back().roots.insert(roots_[entry].begin(), roots_[entry].end());
    }
    return texts;
  }

  // Constants that several entries have for themselves become shared. Returns whether some differ.
  static bool share_constants(NamedConstants& shared, std::vector<NamedConstants>& own) {
    std::map<std::string, std::vector<NamedConstants::Declared>> by_name;
    for (const NamedConstants& constants : own) {
      for (const NamedConstants::Declared& constant : constants.declared)
        by_name[constant.name].push_back(constant);
    }
    bool clash = false;
    for (const auto& [name, all] : by_name) {
      if (all.size() == 1) continue;
      const auto differs = [&values = all](const auto& constant) {
        return constant.value != values.front().value;
      };
      if (std::any_of(all.begin(), all.end(), differs)) {
        clash = true;
        continue;
      }
      shared.declared.push_back(all.front());
      for (NamedConstants& constants : own)
        std::erase_if(constants.declared,
                      [&shared_name = name](const auto& constant) { return constant.name == shared_name; });
    }
    return clash;
  }

  // The output of assembled().
  Specialized in_parts(const Texts& texts) const {
    std::vector<std::string> parts(1);  // includes, shared, nothing, and for each entry: own, text
    std::string text = texts.shared;
    for (const Texts::Own& own : texts.own) text += own.text;
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
      return from == std::string::npos
                 ? ""
                 : one_unnamed(part.substr(from + begin.size(), to - from - begin.size()));
    };
    Specialized result{included(parts[0]), inside(parts[1]), {}};
    for (int entry = 0; entry < entries(); ++entry)
      result.entries.push_back({inside(parts[3 + 2 * entry]), parts[4 + 2 * entry]});
    return result;
  }

  // Unnamed namespaces with nothing between them become one.
  static std::string one_unnamed(std::string text) {
    const std::string end = "}  // namespace\n", begin = "namespace {\n";
    for (std::size_t at = 0; (at = text.find(end, at)) != std::string::npos;) {
      const std::size_t next = text.find_first_not_of('\n', at + end.size());
      if (next != std::string::npos && text.compare(next, begin.size(), begin) == 0) {
        text.erase(at, next + begin.size() - at);
      } else {
        at += end.size();
      }
    }
    return text;
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

  // Parts of a file: shared, or an entry's own.
  std::string text_of_file(int file, std::optional<int> entry) {
    const std::string& text = scope_.text(file);
    const std::vector<Piece>& pieces = pieces_.of_file[file];
    const std::vector<Edit>& edits = edits_[entry ? 1 + *entry : 0][file];
    const auto has_part = [&](std::optional<int> part) {
      return std::any_of(pieces.begin(), pieces.end(), [&](const Piece& p) { return is_of(p, part); });
    };
    if (!has_part(entry)) return "";
    const bool has_head = !scope_.is_entry(file) && (!entry || !has_part(std::nullopt));
    std::string result = has_head ? head_comment(text) : kHeadMark + std::string("\n");
    // Code of which other entries have other versions must not meet theirs when a program is linked.
    const bool is_internal = entry && has_versions_ && !scope_.is_entry(file);
    const std::string begin = is_internal ? "namespace {\n\n" : "",
                      behind = is_internal ? "}  // namespace\n\n" : "";
    std::vector<std::string> space;
    result += begin;
    std::size_t end = 0;
    for (const Piece& piece : pieces) {
      if (!is_of(piece, entry)) continue;
      if (piece.space != space) {
        result += behind + closing(space) + opening(piece.space) + begin;
        space = piece.space;
      } else if (end > 0 && piece.begin >= end && text.substr(end, piece.begin - end) == "\n") {
        result.pop_back();  // the two stand together
      }
      result += piece.comment + edited(text, piece.begin, piece.end, edits) + "\n\n";
      end = piece.end;
    }
    return result + behind + closing(space);
  }

  const SpecializeRequest& request_;
  const Scope scope_;
  Bindings bindings_;
  Pieces pieces_;
  bool has_versions_ = false;  // something that entries share by name but not by text
  std::vector<std::map<int, std::vector<Edit>>> edits_;  // by file: for all entries, then for each
  std::map<int, std::set<std::string>> roots_;           // what each entry declares
};

}  // namespace

Specialized specialize(const SpecializeRequest& request) {
  return Specializer(request).run();
}

}  // namespace hydrac::specialize
