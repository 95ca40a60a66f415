#include "codegen/statement.h"

#include <algorithm>

namespace hydrac::codegen {

namespace {

// Goes upwards: what a statement declares ends with it, and what it refers to adds to `used`.
void drop_unused(std::vector<Statement>& statements, Names& used) {
  std::vector<Statement> kept;
  for (size_t i = statements.size(); i-- > 0;) {
    Statement& statement = statements[i];
    if (!statement.declares.empty() && used.erase(statement.declares) == 0) continue;
    Names inside;
    drop_unused(statement.body, inside);
    inside.insert(statement.code.names.begin(), statement.code.names.end());
    for (const std::string& bound : statement.binds) inside.erase(bound);
    used.merge(inside);
    kept.push_back(std::move(statement));
  }
  std::ranges::reverse(kept);
  statements = std::move(kept);
}

void print(const std::vector<Statement>& statements, size_t indent, bool with_comments, std::string& text) {
  const auto print_line = [&](const std::string& line) {
    if (!line.empty() && line[0] != '#') text.append(indent * 2, ' ');
    text += line + "\n";
  };
  for (const Statement& statement : statements) {
    std::string line = statement.code.text;
    if (statement.is_block) line += line.empty() ? "{" : " {";
    if (!statement.comment.empty()) {
      if (!with_comments && line.empty()) continue;
      if (with_comments) line += (line.empty() ? "// " : "  // ") + statement.comment;
    }
    print_line(line);
    print(statement.body, indent + 1, with_comments, text);
    if (!statement.end.empty()) print_line(statement.end);
  }
}

}  // namespace

std::vector<Statement>& Block::here() {
  std::vector<Statement>* statements = &statements_;
  for (size_t d = 0; d < depth_; ++d) statements = &statements->back().body;
  return *statements;
}

Statement& Block::add(Statement statement) {
  return here().emplace_back(std::move(statement));
}

void Block::add(Block block) {
  for (Statement& statement : block.statements_) add(std::move(statement));
}

void Block::declare_where_used(const std::string& type, const std::string& name, const Code& value,
                               const std::string& comment) {
  add(Statement{codegen::code("{} {} = {};", type, name, value), comment, name});
}

Statement& Block::open_behind(Code head) {
  Statement& statement = add(Statement{std::move(head)});
  statement.is_block = true;
  ++depth_;
  return statement;
}

void Block::close(const std::string& end) {
  --depth_;
  here().back().end = end;
}

void Block::open_loop(const std::string& type, const Code& name, const Code& from, const Code& to,
                      const Code& step) {
  open("for ({0} {1} = {2}; {1} < {3}; {4})", type, name, from, to, step).binds = name.names;
}

void Block::open_loop(const std::string& type, const Code& name, const Code& to) {
  open_loop(type, name, "0", to, codegen::code("++{}", name));
}

Names Block::drop_unused(Names used) {
  codegen::drop_unused(statements_, used);
  return used;
}

std::string Block::text(size_t indent, bool with_comments) const {
  std::string text;
  print(statements_, indent, with_comments, text);
  return text;
}

}  // namespace hydrac::codegen
