// Reading a mapped file that another program has shortened, or that its disk does not give any more, is a
// SIGBUS. This makes it an error that names the file.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace hydrac::runtime {

struct MappingEntry;

// A range of memory that a file is mapped to, known to the handler as long as this object lives.
class KnownMapping {
 public:
  // `size` > 0.
  KnownMapping(const void* begin, size_t size, const std::string& shown_as);
  ~KnownMapping();
  KnownMapping(const KnownMapping&) = delete;
  KnownMapping& operator=(const KnownMapping&) = delete;

 private:
  MappingEntry* entry_;
};

// Installs the handler for the whole process: a fault within a known mapping prints
// "<program>: the run failed: <file>: ..." and ends it with exit code 3. Any other SIGBUS is what it was.
void report_mapping_faults(std::string_view program);

}  // namespace hydrac::runtime
