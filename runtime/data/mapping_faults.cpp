#include "runtime/data/mapping_faults.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "runtime/exit_codes.h"

namespace hydrac::runtime {

// The handler may run at any moment, so it takes no lock: entries are never freed, only used again, and one
// that is free has size 0. `message` is written before `size` and not changed until it is 0 again.
struct MappingEntry {
  std::atomic<uintptr_t> begin{0};
  std::atomic<size_t> size{0};
  std::string message;
  MappingEntry* next = nullptr;
};

namespace {

std::atomic<MappingEntry*> entries{nullptr};
std::mutex entries_changing;
std::string program_name;  // written before the handler is installed

void write_stderr(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const MappingEntry* entry = entries.load(); entry; entry = entry->next) {
    const size_t size = entry->size.load();
    const uintptr_t begin = entry->begin.load();
    if (address < begin || address - begin >= size) continue;
    write_stderr(program_name);
    write_stderr(entry->message);
    ::_exit(kExitRunFailed);
  }
  // Not ours: the instruction runs again, and this time the process ends as it would have.
  ::signal(signal, SIG_DFL);
}

}  // namespace

KnownMapping::KnownMapping(const void* begin, size_t size, const std::string& shown_as) {
  const std::lock_guard lock(entries_changing);
  entry_ = entries.load();
  while (entry_ && entry_->size.load() != 0) entry_ = entry_->next;
  const bool is_new = entry_ == nullptr;
  if (is_new) entry_ = new MappingEntry;
  entry_->message = ": the run failed: " + shown_as +
                    ": cannot read it any more: it was shortened, or its disk failed, after it had been "
                    "opened; put it back as it was, then --resume continues from the newest checkpoint\n";
  entry_->begin = reinterpret_cast<uintptr_t>(begin);
  entry_->size = size;
  if (!is_new) return;
  entry_->next = entries.load();
  entries = entry_;
}

KnownMapping::~KnownMapping() {
  entry_->size = 0;
}

void report_mapping_faults(std::string_view program) {
  program_name = program;
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;  // see runtime/log/signal.cpp for the stack
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace hydrac::runtime
