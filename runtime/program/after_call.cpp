#include "runtime/program/after_call.h"

#include <utility>

namespace hydrac::runtime {

namespace {

thread_local CallListener* listening = nullptr;

}  // namespace

void before_call(void* queue) {
  if (listening && listening->before_) listening->before_(queue);
}

void after_call(void* queue) {
  if (listening) listening->after_(queue);
}

CallListener::CallListener(Told after, Told before)
    : after_(std::move(after)), before_(std::move(before)), outer_(std::exchange(listening, this)) {}

CallListener::~CallListener() {
  listening = outer_;
}

}  // namespace hydrac::runtime
