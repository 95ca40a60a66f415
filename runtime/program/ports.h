// The functions of a program, and its ports: what the host writes before they run and reads after.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/program/decimal_rate.h"

namespace hydrac::runtime {

// The functions that a program is made of; all work on one arena.
enum class Function {
  micro_step,  // forward and backward of one micro-batch
  update,      // clipping, learning rate, optimizer
  evaluate,    // forward of one batch without dropout
  generate,    // logits of one token; language models
  prefill,     // instead of it, with a cache: logits behind prompts,
  decode,      // and behind the next token of every sequence
  score,       // forward of a batch of replies without dropout; programs with an objective
  score_base,  // the same without adapters
  embed,       // forward of a batch of texts through an encoder of replies; where there is one
  load         // makes the working copies of the parameters anew; where there are some
};
std::string_view to_string(Function function);

// A dense tensor in the arena: its offset in bytes, and the number of elements, of 4 bytes unless stated
// otherwise.
struct Place {
  int64_t offset = -1;
  int64_t elements = 0;
  explicit operator bool() const { return offset >= 0; }  // whether the program has it
  bool operator==(const Place&) const = default;
  // `count` of its elements of 4 bytes, from `first` on.
  Place part(int64_t first, int64_t count) const { return {offset + first * 4, count}; }
};

// The ports of ports.def. Inputs lie within the first input_bytes of the arena.
struct InputPlaces {
#define HYDRAC_INPUT(name) Place name;
#include "runtime/program/ports.def"
  int64_t token_ids = 0;     // token_order: ids are smaller than this
  int64_t position_ids = 0;  // position_order: positions are smaller than this
  // For ranks that share layers: the own_ids ids from first_own_id on are a rank's part of the vocabulary,
  // and of targets too with own_targets.
  int64_t own_ids = 0, first_own_id = 0;
  bool own_targets = false;
};
struct StatePlaces {
#define HYDRAC_STATE(name) Place name;
#include "runtime/program/ports.def"
  float initial_loss_scale = 0;
  DecimalRate initial_rate;
};
struct ResultPlaces {
#define HYDRAC_RESULT(name) Place name;
#include "runtime/program/ports.def"
  int64_t vocab_size = 0;  // V
};

struct Ports {
  InputPlaces inputs;
  StatePlaces state;
  ResultPlaces results;
};

// Bytes for all elements of a port.
struct PortBytes {
  Place port;
  std::span<const std::byte> bytes;
};
template <class T>
PortBytes port_bytes(Place port, std::span<T> elements) {
  return {port, std::as_bytes(elements)};
}

}  // namespace hydrac::runtime
