#include "specialize/pieces.h"

#include <clang/AST/DeclFriend.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

class PieceFinder {
 public:
  PieceFinder(const Places& places, const Instances& instances, const Preprocessing& preprocessing,
              bool keeps_conditionals, int entry, Pieces& pieces)
      : places_(places),
        instances_(instances),
        preprocessing_(preprocessing),
        keeps_conditionals_(keeps_conditionals),
        entry_(entry),
        pieces_(pieces) {}

  void find(const DeclContext* context, const std::vector<std::string>& space) {
    for (const Decl* decl : context->decls()) {
      if (const auto* inner = dyn_cast<NamespaceDecl>(decl)) {
        std::vector<std::string> path = space;
        path.push_back(inner->getNameAsString());
        find(inner, path);
      } else if (const Decl* wanted = wanted_of(decl)) {
        add(decl, wanted, space);
      }
    }
  }

 private:
  // The declaration in whose name `decl` is kept; null if it is not.
  const Decl* wanted_of(const Decl* decl) const {
    if (const auto* linkage = dyn_cast<LinkageSpecDecl>(decl)) {
      for (const Decl* inner : linkage->decls()) return wanted_of(inner);
      return nullptr;
    }
    const auto place = places_.of_use(decl->getLocation());
    if (!place || decl->isImplicit() || isa<ClassTemplatePartialSpecializationDecl, StaticAssertDecl>(decl))
      return nullptr;
    if (const auto* variable = dyn_cast<VarTemplateSpecializationDecl>(decl)) {
      const auto primary = places_.of_use(written(variable->getSpecializedTemplate())->getLocation());
      return primary && instances_.patterns.contains(*primary) ? decl : nullptr;
    }
    return is_reached(decl, *place) ? decl : nullptr;
  }

  // A class that is declared before its definition has the definition's fate.
  bool is_reached(const Decl* decl, const Place& place) const {
    const CXXRecordDecl* definition = definition_behind(decl);
    const auto defined = definition ? places_.of_use(definition->getLocation()) : std::nullopt;
    return instances_.patterns.contains(defined ? *defined : place);
  }

  // Members that nothing reaches were not bound either: they go before anyone parses them again.
  void add_members(const CXXRecordDecl* record) {
    for (const Decl* member : record->decls()) {
      if (isa<FriendDecl>(member)) refuse_friend(member);
      const auto place = places_.of_use(member->getLocation());
      if (member->isImplicit() || !place || isa<FieldDecl, AccessSpecDecl, StaticAssertDecl>(member))
        continue;
      const auto begin = begin_of(member);
      if (!begin) continue;
      const bool reached = is_reached(member, *place);
      const std::string& text = places_.scope().text(begin->file);
      Pieces::Member& known = pieces_.members[{begin->file, comment_begin(text, begin->offset)}];
      known.end = next_line(text, places_.behind_declaration(member));
      if (reached) known.entries.insert(entry_);
      if (const CXXRecordDecl* inner = record_of(member); inner && reached) add_members(inner);
    }
  }

  [[noreturn]] void refuse_friend(const Decl* decl) const {
    const PresumedLoc place = places_.ast().sources().getPresumedLoc(decl->getLocation());
    throw std::logic_error(
        fmt::format("{}:{}: specialized code cannot have friends: make public what they need",
                    places_.ast().path_of(decl->getLocation()), place.getLine()));
  }

  std::optional<Place> begin_of(const Decl* decl) const {
    auto begin = places_.of_use(decl->getBeginLoc());
    const Decl* plain = decl;
    if (const auto* described = dyn_cast<TemplateDecl>(decl)) plain = described->getTemplatedDecl();
    if (begin && plain) {
      for (const Attr* attribute : plain->attrs()) {
        const auto place = places_.of_use(attribute->getLocation());
        if (place && place->file == begin->file && place->offset < begin->offset) begin = place;
      }
    }
    return begin;
  }

  void add(const Decl* decl, const Decl* wanted, const std::vector<std::string>& space) {
    const auto begin = begin_of(decl);
    if (!begin) return;
    const std::string& text = places_.scope().text(begin->file);
    // Templates move from hydrac::cuda or hydrac::cpu into a namespace of the program; an entry keeps its
    // namespace.
    const std::size_t left =
        places_.scope().is_entry(begin->file) ? 0 : std::min<std::size_t>(space.size(), 2);
    Piece piece{comment_begin(text, begin->offset),
                places_.behind_declaration(wanted),
                std::vector(space.begin() + static_cast<std::ptrdiff_t>(left), space.end()),
                "",
                {},
                {entry_}};
    if (const auto* named = dyn_cast<NamedDecl>(wanted)) piece.names.insert(named->getNameAsString());
    if (piece.begin == line_begin(text, begin->offset)) piece.comment = comment_elsewhere(wanted);
    if (keeps_conditionals_) widen(begin->file, piece);
    if (const CXXRecordDecl* record = record_of(wanted)) add_members(record);
    std::vector<Piece>& all = pieces_.of_file[begin->file];
    const auto same =
        std::find_if(all.begin(), all.end(), [&](const Piece& p) { return p.begin == piece.begin; });
    if (same == all.end()) {
      all.push_back(piece);
    } else {
      same->end = std::max(same->end, piece.end);
      same->entries.insert(entry_);
      same->names.merge(piece.names);
    }
  }

  // To all of an #if ... #endif around it.
  void widen(int file, Piece& piece) const {
    const std::string& text = places_.scope().text(file);
    for (const auto& [place, conditional] : preprocessing_.conditionals) {
      if (place.file != file) continue;
      const std::size_t begin = conditional.branches.front().begin;
      if (begin > piece.begin || conditional.end < piece.end) continue;
      piece.begin = comment_begin(text, begin);
      piece.end = conditional.end;
    }
  }

  std::string comment_of(const Decl* decl) const {
    const auto begin = begin_of(decl);
    if (!begin) return "";
    const std::string& text = places_.scope().text(begin->file);
    const std::size_t comment = comment_begin(text, begin->offset);
    return text.substr(comment, line_begin(text, begin->offset) - comment);
  }

  std::string comment_elsewhere(const Decl* decl) const {
    const auto of_others = [&](const auto* first) {
      for (const Decl* other : first->redecls()) {
        if (other == decl) continue;
        if (std::string comment = comment_of(other); !comment.empty()) return comment;
      }
      return std::string();
    };
    if (const auto* described = dyn_cast<FunctionTemplateDecl>(decl)) return of_others(described);
    const auto* function = dyn_cast<FunctionDecl>(decl);
    if (!function) return "";
    if (const FunctionTemplateDecl* primary = function->getPrimaryTemplate()) return of_others(primary);
    return of_others(function);
  }

  const Places& places_;
  const Instances& instances_;
  const Preprocessing& preprocessing_;
  const bool keeps_conditionals_;
  const int entry_;
  Pieces& pieces_;
};

}  // namespace

void find_pieces(const Places& places, const Instances& instances, const Preprocessing& preprocessing,
                 bool keeps_conditionals, int entry, Pieces& pieces) {
  PieceFinder(places, instances, preprocessing, keeps_conditionals, entry, pieces)
      .find(places.ast().context().getTranslationUnitDecl(), {});
}

}  // namespace hydrac::specialize
