#include <clang/AST/DeclTemplate.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "specialize/bind.h"
#include "specialize/constants.h"
#include "specialize/format.h"
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

class Specializer {
 public:
  explicit Specializer(const SpecializeRequest& request)
      : request_(request), scope_(files(request)), entry_(scope_.number_of(request.entry.path)) {}

  std::string run() {
    const std::vector<std::string> processors = processors_of(request_.dialect);
    std::vector<std::unique_ptr<Ast>> asts;
    std::vector<Places> places;
    std::vector<Instances> instances;
    std::vector<Preprocessing> preprocessings;
    Bindings bindings;
    places.reserve(processors.size());
    for (const std::string& processor : processors) {
      PreprocessingWatch watch(scope_);
      asts.push_back(
          Ast::parse({request_.entry, request_.dialect, request_.capability, request_.headers, {}, processor},
                     [&](Preprocessor& preprocessor) { watch.attach(preprocessor); }));
      expect_no_problems(asts.back()->problems(), "templates do not parse with " + request_.entry.path);
      places.emplace_back(*asts.back(), scope_);
      preprocessings.push_back(watch.result(places.back()));
      const auto is_of_entry = [&](const Decl* decl) {
        const auto place = places.back().of_use(decl->getLocation());
        if (!place || place->file != entry_) return false;
        if (const auto* named = dyn_cast<NamedDecl>(decl)) roots_.insert(named->getNameAsString());
        return true;
      };
      instances.push_back(instances_of(places.back(), is_of_entry, bindings));
    }
    Proposals proposals;
    Pieces pieces;
    for (std::size_t i = 0; i < asts.size(); ++i) {
      propose_bindings(places[i], instances[i], entry_, request_.scope, bindings, proposals);
      find_pieces(places[i], instances[i], preprocessings[i], !is_cuda(), pieces);
    }
    const std::string text = assembled(preprocessings[0], pieces, proposals.agreed());
    ParseRequest parse{{request_.entry.path, ""}, request_.dialect, request_.capability, {}, {}};
    for (const SourceFile& file : request_.headers) {
      if (scope_.number_of(file.path) < 0) parse.headers.push_back(file);
    }
    return tidied(text, parse, processors, roots_);
  }

 private:
  bool is_cuda() const { return request_.dialect == Dialect::cuda; }

  static std::vector<SourceFile> files(const SpecializeRequest& request) {
    std::vector<SourceFile> files = {request.entry};
    for (const SourceFile& file : request.headers) {
      if (std::find(request.library.begin(), request.library.end(), file.path) == request.library.end())
        files.push_back(file);
    }
    return files;
  }

  std::string assembled(const Preprocessing& preprocessing, Pieces& pieces,
                        std::map<int, std::vector<Edit>> edits) const {
    for (const auto& [place, member] : pieces.members) {
      if (!member.is_reached) edits[place.file].push_back({place.offset, member.end, ""});
    }
    const auto text_of = [&](int file) {
      std::vector<Piece>& of_file = pieces.of_file[file];
      if (of_file.empty()) return std::string();
      std::sort(of_file.begin(), of_file.end(),
                [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
      std::vector<Edit>& all = edits[file];
      if (is_cuda()) {
        const std::vector<Edit> of_conditionals = conditional_edits(preprocessing, file, scope_.text(file));
        all.insert(all.end(), of_conditionals.begin(), of_conditionals.end());
      }
      if (const auto found = preprocessing.expansions.find(file); found != preprocessing.expansions.end())
        all.insert(all.end(), found->second.begin(), found->second.end());
      return text_of_file(file, of_file, all);
    };
    std::string body;
    for (const int file : preprocessing.files) body += text_of(file);
    const NamedConstants constants = name_constants(body);
    return fmt::format("{}\nnamespace {} {{\n\n{}\n{}\n}}  // namespace {}\n\n{}{}",
                       includes(preprocessing.includes), request_.scope, constants.declarations,
                       constants.text, request_.scope, kHeadMark, text_of(entry_));
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

  std::string text_of_file(int file, const std::vector<Piece>& pieces, const std::vector<Edit>& edits) const {
    const std::string& text = scope_.text(file);
    std::string result = file == entry_ ? "" : head_comment(text);
    std::vector<std::string> space;
    std::size_t end = 0;
    for (const Piece& piece : pieces) {
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
  const int entry_;
  std::set<std::string> roots_;  // what the entry declares
};

}  // namespace

std::string specialize(const SpecializeRequest& request) {
  return formatted(Specializer(request).run());
}

}  // namespace hydrac::specialize
