// A program that is its layout and its memory, which starts and is read and written, and that computes
// nothing.
#pragma once
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/program/laid_out_program.h"

namespace hydrac::runtime {

class MemoryProgram : public LaidOutProgram {
 public:
  // `bytes`: of the memory, which the layout's offsets are in.
  MemoryProgram(ProgramLayout layout, int64_t bytes)
      : LaidOutProgram(std::move(layout), 1), memory(static_cast<size_t>(bytes)) {}

  std::string description() const override { return "memory"; }
  void copy_out(int64_t offset, std::span<std::byte> to) override {
    check(offset, to.size());
    std::memcpy(to.data(), &memory[static_cast<size_t>(offset)], to.size());
  }
  void copy_in(int64_t offset, std::span<const std::byte> from) override {
    check(offset, from.size());
    std::memcpy(&memory[static_cast<size_t>(offset)], from.data(), from.size());
  }
  void micro_step(const Batch&, float) override { refuse(); }
  void update() override { refuse(); }
  StepResult finish_step() override { refuse(); }
  void compute(Function, const Batch*) override { refuse(); }

  std::vector<std::byte> memory;

 protected:
  void clear_persistent() override { std::ranges::fill(memory, std::byte{0}); }
  void run(Function) override { refuse(); }
  void wait() const override {}
  LastRun last_run() const override { return {}; }

 private:
  [[noreturn]] static void refuse() { throw std::logic_error("it cannot run"); }
  void check(int64_t offset, size_t bytes) const {
    if (offset < 0 || static_cast<size_t>(offset) + bytes > memory.size())
      throw std::logic_error("no such memory");
  }
};

}  // namespace hydrac::runtime
