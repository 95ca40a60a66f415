#include "specialize/tidy.h"

#include <algorithm>
#include <future>
#include <stdexcept>

#include "specialize/edits.h"
#include "specialize/unused.h"

namespace hydrac::specialize {

using namespace clang;  // NOLINT: these files speak Clang's language

namespace {

// Heads that nothing follows but another head or the end of a namespace or of a part.
std::string without_empty_heads(const std::string& text, bool keeps_marks) {
  std::string result;
  std::size_t at = 0;
  const std::string mark = kHeadMark, part = kPartMark;
  const auto is_mark = [&](std::size_t place) {
    return text.compare(place, mark.size(), mark) == 0 || text.compare(place, part.size(), part) == 0;
  };
  for (std::size_t begin; (begin = text.find(mark, at)) != std::string::npos;) {
    result.append(text, at, begin - at);
    std::size_t end = begin + mark.size();
    const std::size_t comment = end;
    while (text.compare(end, 2, "//") == 0 && !is_mark(end)) end = next_line(text, end);
    const std::size_t next = text.find_first_not_of(" \n", end);
    const bool is_empty = next == std::string::npos || text[next] == '}' || is_mark(next);
    if (!is_empty) result.append(text, keeps_marks ? begin : comment, end - (keeps_marks ? begin : comment));
    at = end;
  }
  return result.append(text, at);
}

std::string without_unused_includes(const std::string& text, const std::set<std::string>& used) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = next_line(text, at);
    const std::string line = text.substr(at, end - at);
    const std::string start = "#include \"";
    const bool goes =
        line.starts_with(start) && !used.contains(line.substr(start.size(), line.rfind('"') - start.size()));
    if (!goes) result += line;
    at = end;
  }
  return result;
}

// True if it goes, or all of something that it is part of.
bool goes(const AllUnused& unused, std::size_t begin, const Unused& what) {
  for (const auto& [other_begin, other] : unused) {
    if (other_begin > begin) return false;
    if (other_begin == begin && other == what) return true;
    if (other.end >= what.end && other.replacement.empty()) return true;
  }
  return false;
}

AllUnused common(const AllUnused& a, const AllUnused& b) {
  AllUnused both;
  for (const auto& [begin, what] : a) {
    if (goes(b, begin, what)) both[begin] = what;
  }
  for (const auto& [begin, what] : b) {
    if (goes(a, begin, what)) both.try_emplace(begin, what);
  }
  return both;
}

// Code that can only go together with something that stays also stays.
void keep_what_stays(AllUnused& unused, const AllUnused& of_shared) {
  std::erase_if(unused, [&](const auto& entry) {
    const std::size_t with = entry.second.with;
    return with != 0 && !unused.contains(with) && !of_shared.contains(with);
  });
}

// Findings of one parse of a text.
struct Finding {
  std::string text;
  AllUnused unused;               // for each processor
  std::set<std::string> outside;  // as Instances has it
  std::vector<Problem> problems;
};

Finding look_at(ParseRequest& request, const std::vector<std::string>& processors,
                const std::set<std::string>& roots) {
  const Scope scope({request.source});
  std::vector<std::future<Finding>> answers;
  for (const std::string& processor : processors) {
    request.processor = processor;
    answers.push_back(std::async(std::launch::async, [&scope, &roots, request] {
      const std::unique_ptr<Ast> ast = Ast::parse(request);
      Finding answer{"", {}, {}, ast->problems()};
      answer.unused = unused_of(Places(*ast, scope), roots, answer.outside);
      return answer;
    }));
  }
  Finding all{request.source.text, {}, {}, {}};
  for (size_t i = 0; i < answers.size(); ++i) {
    Finding answer = answers[i].get();
    all.unused = i == 0 ? std::move(answer.unused) : common(all.unused, answer.unused);
    all.outside.merge(answer.outside);
    all.problems.insert(all.problems.end(), answer.problems.begin(), answer.problems.end());
  }
  return all;
}

// `text` stands at `place` of what was looked at.
std::string without(const AllUnused& unused, const std::string& text, std::size_t place) {
  std::vector<Edit> edits;
  std::size_t end = 0, comma = 0, first = 0;  // of adjacent variables
  for (const auto& [begin, what] : unused) {
    edits.push_back({begin - place, what.end - place, what.replacement});
    if (what.comma == 0) continue;
    if (begin != end) {
      comma = what.comma - place;
      first = begin - place;
    }
    end = what.end;
    if (!what.is_last) continue;
    // With the last of several variables the semicolon went.
    edits.push_back({comma, comma + 1, ";"});
    edits.push_back({statement_end(text, comma + 1), first, ""});
  }
  return edited(text, 0, text.size(), edits);
}

std::string refusal(const std::vector<Problem>& problems, const std::string& text) {
  std::string message = "specialized code does not parse:";
  for (const Problem& problem : problems) message += "\n  " + text_of(problem);
  return message + "\n" + text;
}

}  // namespace

Texts tidied(Texts texts, ParseRequest request, const std::vector<std::string>& processors) {
  constexpr int kRounds = 12;
  std::vector<Problem> first_problems;
  std::string first_text;
  std::vector<Finding> findings(texts.own.size());  // of an entry; it stands as long as its text does
  for (int round = 0; round < kRounds; ++round) {
    const Finding* wrong = nullptr;  // the first entry that has problems
    AllUnused of_shared;
    std::vector<AllUnused> of_own(texts.own.size());
    for (std::size_t i = 0; i < texts.own.size(); ++i) {
      request.source.text = texts.shared + texts.own[i].text;
      if (round == 0 || findings[i].text != request.source.text)
        findings[i] = look_at(request, processors, texts.own[i].roots);
      if (!wrong && !findings[i].problems.empty()) wrong = &findings[i];
      AllUnused unused = findings[i].unused;
      const auto behind = unused.lower_bound(texts.shared.size());
      of_own[i] = AllUnused(behind, unused.end());
      unused.erase(behind, unused.end());
      of_shared = i == 0 ? unused : common(of_shared, unused);
    }
    keep_what_stays(of_shared, {});
    bool is_settled = of_shared.empty();
    for (AllUnused& own : of_own) {
      keep_what_stays(own, of_shared);
      is_settled = is_settled && own.empty();
    }
    if (wrong && first_problems.empty()) {
      // Unused code may be wrong: it goes.
      first_problems = wrong->problems;
      first_text = wrong->text;
    }
    if (is_settled && wrong) throw std::logic_error(refusal(first_problems, first_text));
    for (std::size_t i = 0; i < texts.own.size(); ++i) {
      texts.own[i].text =
          without_empty_heads(without(of_own[i], texts.own[i].text, texts.shared.size()), !is_settled);
    }
    texts.shared = without_empty_heads(without(of_shared, texts.shared, 0), !is_settled);
    if (is_settled) {
      std::set<std::string> outside;
      for (const Finding& finding : findings) outside.insert(finding.outside.begin(), finding.outside.end());
      texts.shared = without_unused_includes(texts.shared, outside);
      return texts;
    }
  }
  throw std::logic_error("tidying does not settle");
}

}  // namespace hydrac::specialize
