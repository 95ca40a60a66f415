// Statements of C++ as a tree: built by the stages that decide what a kernel does, printed once it is whole.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "codegen/code.h"

namespace hydrac::codegen {

struct Statement {
  Code code;                  // the line; of a block, what stands before its brace
  std::string comment = {};   // behind it, or alone in its line
  std::string declares = {};  // a variable that is left out where nothing behind refers to it
  Names binds = {};           // what the head of a block declares for its body: a loop's variable, parameters
  std::vector<Statement> body = {};
  bool is_block = false;
  std::string end = {};  // the line that ends a block; empty where "} else {" follows
};

class Block {
 public:
  template <class... Args>
  Statement& line(CodeFormat<Args...> format, const Args&... args) {
    return add(Statement{codegen::code<Args...>(format, args...)});
  }
  // "const int name = value;", left out where nothing behind refers to the name.
  void declare_where_used(const std::string& type, const std::string& name, const Code& value,
                          const std::string& comment = "");
  void comment(const std::string& text) { add(Statement{{}, text}); }
  void blank() { add(Statement{}); }
  Statement& add(Statement statement);
  void add(Block block);  // its statements

  // Opens a block after the code: everything added from here on is inside it, up to close().
  template <class... Args>
  Statement& open(CodeFormat<Args...> format, const Args&... args) {
    return open_behind(codegen::code<Args...>(format, args...));
  }
  void close(const std::string& end = "}");
  // Closes a block and opens the next one: "} else {".
  template <class... Args>
  void otherwise(CodeFormat<Args...> format, const Args&... args) {
    close("");
    open("}} {}", codegen::code<Args...>(format, args...));
  }
  // for (type name = from; name < to; step) {
  void open_loop(const std::string& type, const Code& name, const Code& from, const Code& to,
                 const Code& step);
  void open_loop(const std::string& type, const Code& name, const Code& to);  // from 0, one by one

  bool empty() const { return statements_.empty(); }
  // Removes declarations that neither the block nor `used` refers to; `used` are the names that later code
  // refers to. Returns the names that both refer to and the block does not declare.
  Names drop_unused(Names used = {});

  std::string text(size_t indent, bool with_comments = true) const;

 private:
  Statement& open_behind(Code head);
  std::vector<Statement>& here();

  std::vector<Statement> statements_;
  size_t depth_ = 0;  // of the blocks that are open
};

}  // namespace hydrac::codegen
