#include "driver/dump.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "runtime/error.h"

namespace hydrac::driver {

Dump::Dump(std::string dir) : dir_(std::move(dir)) {
  if (dir_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(dir_, error);
  if (error) throw runtime::InputError(fmt::format("--dump {}: {}", dir_, error.message()));
}

void Dump::stage(const std::string& name, const std::string& text) {
  if (dir_.empty()) return;
  const std::string file = fmt::format("{}/{:02}-{}.txt", dir_, ++number_, name);
  std::ofstream out(file, std::ios::binary);
  out << (text == before_ ? std::string("unchanged\n") : text);
  out.close();
  if (!out) throw runtime::InputError("--dump: cannot write " + file);
  before_ = text;
}

}  // namespace hydrac::driver
