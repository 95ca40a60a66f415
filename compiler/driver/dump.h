// `--dump DIR`: every stage of the pipeline as a numbered text file; one that changed nothing says so.
#pragma once
#include <string>

namespace hydrac::driver {

class Dump {
 public:
  explicit Dump(std::string dir);  // empty: writes nothing
  void stage(const std::string& name, const std::string& text);

 private:
  std::string dir_;
  int number_ = 0;
  std::string before_;
};

}  // namespace hydrac::driver
