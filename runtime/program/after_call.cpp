#include "runtime/program/after_call.h"

#include <utility>

namespace hydrac::runtime {

namespace {

thread_local std::function<void()>* listening = nullptr;

}  // namespace

void after_call() {
  if (listening) (*listening)();
}

CallListener::CallListener(std::function<void()> told)
    : told_(std::move(told)), before_(std::exchange(listening, &told_)) {}

CallListener::~CallListener() {
  listening = before_;
}

}  // namespace hydrac::runtime
