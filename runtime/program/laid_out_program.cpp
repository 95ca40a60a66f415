#include "runtime/program/laid_out_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "runtime/checkpoint/tensor_io.h"
#include "runtime/error.h"
#include "runtime/parallel/ranks.h"
#include "runtime/program/after_call.h"
#include "runtime/program/initialize.h"
#include "runtime/program/nf4.h"
#include "runtime/program/non_finite.h"
#include "runtime/program/shared_bytes.h"
#include "runtime/program/transfer.h"

namespace hydrac::runtime {

namespace {

ReadArena reader_of(LaidOutProgram& program) {
  return [&program](int64_t at, std::span<std::byte> to) { program.copy_out(at, to); };
}

// encode_floats() and decode_floats() on all threads: each number by itself, so that how they are shared out
// changes nothing.
constexpr int64_t kChunk = 1 << 16;

void encode_in_parallel(std::span<const float> values, SafetensorsDtype dtype, std::byte* out) {
  const auto count = static_cast<int64_t>(values.size());
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < count; first += kChunk) {
    encode_floats(values.subspan(first, std::min(kChunk, count - first)), dtype,
                  out + first * dtype_bytes(dtype));
  }
}

void decode_in_parallel(const std::byte* in, SafetensorsDtype dtype, std::span<float> values) {
  const auto count = static_cast<int64_t>(values.size());
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < count; first += kChunk) {
    decode_floats(in + first * dtype_bytes(dtype), dtype,
                  values.subspan(first, std::min(kChunk, count - first)));
  }
}

// Which starts the tensors of `given` fill: those all of whose bytes are theirs.
class Filled {
 public:
  explicit Filled(const std::vector<NamedTensor>& given) {
    for (const NamedTensor& tensor : given) {
      if (tensor.nf4)
        codes_.insert(tensor.nf4->codes);
      else
        bytes_[static_cast<int64_t>(tensor.address)] = tensor.bytes();
    }
  }

  bool contains(const ParameterStart& start) const {
    if (!start.nf4.empty())
      return std::ranges::all_of(start.nf4,
                                 [&](const Nf4Place& part) { return codes_.contains(part.codes); });
    if (!start.pieces.empty()) return false;  // a rank's parts, which are drawn anyway
    int64_t at = start.place.offset;
    const int64_t end = at + start.place.elements * dtype_bytes(start.dtype);
    for (auto next = bytes_.find(at); at < end && next != bytes_.end(); next = bytes_.find(at))
      at += next->second;
    return at == end;
  }

 private:
  std::map<int64_t, int64_t> bytes_;  // of tensors, by address
  std::set<uint64_t> codes_;
};

// Each as a float and what that leaves of it; -1 where there is none.
std::vector<float> in_two_floats(std::span<const double> numbers, int64_t count) {
  std::vector<float> pairs;
  for (int64_t i = 0; i < count; ++i) {
    const double number = numbers.empty() ? -1 : numbers[static_cast<size_t>(i)];
    const auto high = static_cast<float>(number);
    pairs.push_back(high);
    pairs.push_back(static_cast<float>(number - high));
  }
  return pairs;
}

}  // namespace

LaidOutProgram::LaidOutProgram(ProgramLayout layout) : layout_(std::move(layout)) {
  for (NamedTensor& tensor : layout_.parameters)
    tensor.shared = shared_at(layout_.divided, static_cast<int64_t>(tensor.address), tensor.bytes());
}

void LaidOutProgram::start(const std::vector<NamedTensor>& given) {
  clear_persistent();
  const Filled filled(given);
  uint32_t stream = 0;
  for (const ParameterStart& start : layout_.starts) {
    if (!filled.contains(start)) write_start(start, stream);
    ++stream;
  }
  parameters_changed();
  write_scalar(layout_.state.rng_seed, layout_.seed);
  if (layout_.state.rank) write_scalar(layout_.state.rank, int32_t{ranks().rank()});
  write_state_of_part();
  if (layout_.state.loss_scale) write_scalar(layout_.state.loss_scale, layout_.state.initial_loss_scale);
  if (layout_.state.rate_digits) set_learning_rate(layout_.state.initial_rate, true);
  if (layout_.rope) {
    std::vector<float> cos(static_cast<size_t>(layout_.rope->cos.elements)), sin(cos.size());
    fill_rope_tables(*layout_.rope, cos, sin);
    write_floats(layout_.rope->cos, cos);
    write_floats(layout_.rope->sin, sin);
  }
}

void LaidOutProgram::write_start(const ParameterStart& start, uint32_t stream) {
  int64_t next = 0;
  for (const Nf4Place& matrix : start.nf4) {
    write_nf4(matrix, [&](int64_t first, std::span<float> numbers) {
      initialize_parameter(numbers, next + first, start, layout_.seed, stream);
    });
    next += matrix.elements;
  }
  if (!start.nf4.empty()) return;
  if (!start.pieces.empty()) return write_start_of_rank(start, stream);
  const int64_t element = dtype_bytes(start.dtype), bytes = start.place.elements * element;
  std::vector<float> rounded;  // f32 needs none: it is made where it is copied from
  // `count` bytes of it from `begin` on, to be written to `offset`.
  const auto write = [&](int64_t offset, int64_t begin, int64_t count) {
    copy_in_pieces(offset, count, [&](int64_t first, std::span<std::byte> piece) {
      const size_t numbers = piece.size() / static_cast<size_t>(element);
      const int64_t from = (begin + first) / element;
      if (start.dtype == SafetensorsDtype::f32) {
        initialize_parameter(std::span(reinterpret_cast<float*>(piece.data()), numbers), from, start,
                             layout_.seed, stream);
        return;
      }
      rounded.resize(numbers);
      initialize_parameter(rounded, from, start, layout_.seed, stream);
      encode_in_parallel(rounded, start.dtype, piece.data());
    });
  };
  const std::vector<SharedBytes> shared = shared_at(layout_.divided, start.place.offset, bytes);
  if (shared.empty()) return write(start.place.offset, 0, bytes);
  const OwnBytes own = own_bytes(shared[0], ranks().rank());
  if (own.count > 0) write(own.address, own.first, own.count);
}

void LaidOutProgram::write_nf4(const Nf4Place& place, const MakeNumbers& make) {
  constexpr int64_t kNumbers = kPiece / static_cast<int64_t>(sizeof(float));  // whole blocks
  nf4_piece_.resize(static_cast<size_t>(std::min(kNumbers, place.elements)));
  nf4_encoder_.begin(place.elements);
  for (int64_t first = 0; first < place.elements; first += kNumbers) {
    const std::span piece =
        std::span(nf4_piece_).first(static_cast<size_t>(std::min(kNumbers, place.elements - first)));
    make(first, piece);
    nf4_encoder_.add(piece);
  }
  const Nf4& matrix = nf4_encoder_.finish();
  copy_in(static_cast<int64_t>(place.codes), std::as_bytes(std::span(matrix.codes)));
  copy_in(static_cast<int64_t>(place.block_codes), std::as_bytes(std::span(matrix.block_codes)));
  copy_in(static_cast<int64_t>(place.groups), std::as_bytes(std::span(matrix.groups)));
}

std::vector<float> LaidOutProgram::read_nf4(const Nf4Place& place) {
  Nf4 matrix;
  resize(matrix, place.elements);
  copy_out(static_cast<int64_t>(place.codes), std::as_writable_bytes(std::span(matrix.codes)));
  copy_out(static_cast<int64_t>(place.block_codes), std::as_writable_bytes(std::span(matrix.block_codes)));
  copy_out(static_cast<int64_t>(place.groups), std::as_writable_bytes(std::span(matrix.groups)));
  std::vector<float> numbers(static_cast<size_t>(place.elements));
  dequantize_nf4(matrix, numbers);
  return numbers;
}

void LaidOutProgram::copy_in_pieces(int64_t offset, int64_t bytes, const MakePiece& make) {
  std::vector<std::byte> memory(static_cast<size_t>(std::min(kPiece, bytes)));
  for (int64_t first = 0; first < bytes; first += kPiece) {
    const std::span piece = std::span(memory).first(static_cast<size_t>(std::min(kPiece, bytes - first)));
    make(first, piece);
    copy_in(offset + first, piece);
  }
}

void LaidOutProgram::leave_graphs() {
  throw InputError("--no-graph: a program for the cpu has no CUDA graphs");
}

void LaidOutProgram::profile_steps(int64_t, int64_t) {
  throw InputError(
      "--profile: a program for the cpu has no part of CUDA's profilers; perf records all of it");
}

void LaidOutProgram::refresh_working_copies() {
  if (!stale_) return;
  stale_ = false;
  checking() ? run_checked(Function::load) : run(Function::load);
}

void LaidOutProgram::time_calls(bool timed) {
  if (timed && layout_.calls.empty())
    throw InputError("profile: this program was built without a table of its calls");
  timing_ = timed;
}

std::vector<CallSpan> LaidOutProgram::take_timed_calls() {
  return std::exchange(timed_calls_, {});
}

void LaidOutProgram::add_timed(const std::vector<Function>& functions, const std::vector<CallTimes>& times) {
  auto next = times.begin();
  for (const Function function : functions) {
    for (TracedCall& call : layout_.calls.of(to_string(function))) {
      if (next == times.end()) throw std::logic_error("fewer calls were timed than the program has");
      timed_calls_.push_back(
          {std::move(call.name), call.layer, std::move(call.origin), next->queue, next->began, next->ended});
      ++next;
    }
  }
  if (next != times.end()) throw std::logic_error("more calls were timed than the program has");
}

void LaidOutProgram::download(const NamedTensor& tensor, std::span<std::byte> to) {
  if (!tensor.is_whole()) {
    if (!state_is_whole_)
      throw InputError(
          fmt::format("{} is on no rank whole ({}); checkpoints, which all ranks save together, hold it",
                      tensor.name, tensor.pieces.empty() ? "parallel.zero" : "parallel.tensor"));
    ranks().share(tensor.name);
    return collect(tensor, to);
  }
  if (!tensor.nf4) return copy_out(static_cast<int64_t>(tensor.address), to);
  const std::vector<float> numbers = read_nf4(*tensor.nf4);
  std::ranges::copy(std::as_bytes(std::span(numbers)), to.begin());
}

void LaidOutProgram::upload(const NamedTensor& tensor, std::span<const std::byte> from) {
  if (tensor.nf4) return quantize(tensor, SafetensorsDtype::f32, from);
  for (const SharedBytes& stretch : tensor.shared) {
    const OwnBytes own = own_bytes(stretch, ranks().rank());
    if (own.count > 0)
      copy_in(own.address, from.subspan(static_cast<size_t>(own.first), static_cast<size_t>(own.count)));
  }
  for (const TensorPiece& piece : tensor.pieces) upload_piece(piece, from);
  if (tensor.is_whole()) copy_in(static_cast<int64_t>(tensor.address), from);
  parameters_changed();
}

void LaidOutProgram::quantize(const NamedTensor& tensor, SafetensorsDtype dtype,
                              std::span<const std::byte> from) {
  write_nf4(*tensor.nf4, [&](int64_t first, std::span<float> numbers) {
    decode_in_parallel(from.data() + first * dtype_bytes(dtype), dtype, numbers);
  });
}

Counters LaidOutProgram::counters() {
  return {read_scalar<int32_t>(layout_.state.step), read_scalar<uint32_t>(layout_.state.rng_step)};
}

void LaidOutProgram::set_counters(const Counters& counters) {
  write_scalar(layout_.state.step, static_cast<int32_t>(counters.step));
  write_scalar(layout_.state.rng_step, static_cast<uint32_t>(counters.rng_step));
}

void LaidOutProgram::set_learning_rate(const DecimalRate& rate, bool scheduled) {
  const StatePlaces& state = layout_.state;
  if (!state.rate_digits) return StepProgram::set_learning_rate(rate, scheduled);
  write_scalar(state.rate_digits, rate.digits);
  write_scalar(state.rate_unit, rate.unit);
  write_scalar(state.rate_trial, scheduled ? 0.0f : 1.0f);
}

DecimalRate LaidOutProgram::learning_rate() {
  if (!layout_.state.rate_digits) return StepProgram::learning_rate();
  return {read_scalar<float>(layout_.state.rate_digits), read_scalar<float>(layout_.state.rate_unit)};
}

std::optional<int64_t> LaidOutProgram::evaluated_hits() {
  if (!layout_.results.eval_hits) return std::nullopt;
  return std::llround(read_scalar<float>(layout_.results.eval_hits));
}

std::span<const float> LaidOutProgram::result(Place place) {
  result_.resize(static_cast<size_t>(place.elements));
  copy_out(place.offset, std::as_writable_bytes(std::span(result_)));
  return result_;
}

std::span<const float> LaidOutProgram::next_logits(std::span<const int32_t> prompt, int64_t position) {
  const auto at = static_cast<int32_t>(position);
  if (layout_.cache.sequences > 0) {
    const Prompt alone{-1, prompt};
    return prefill({&alone, 1}, {&at, 1}).row(0);
  }
  refresh_working_copies();
  std::vector<int32_t> tokens(static_cast<size_t>(layout_.context_length), 0);
  std::ranges::copy(prompt, tokens.begin());
  if (layout_.inputs.own_prompt) {
    const OwnIds own = own_ids(layout_.inputs, tokens);
    write_ids(layout_.inputs.prompt, own.rows);
    write_floats(layout_.inputs.own_prompt, own.are_own);
  } else {
    write_ids(layout_.inputs.prompt, tokens);
  }
  write_scalar(layout_.inputs.position, at);
  compute(Function::generate);
  return result(layout_.results.logits).first(static_cast<size_t>(layout_.results.vocab_size));
}

LogitRows LaidOutProgram::prefill(std::span<const Prompt> prompts) {
  std::vector<int32_t> ends;
  for (const Prompt& prompt : prompts) ends.push_back(static_cast<int32_t>(prompt.tokens.size()) - 1);
  return prefill(prompts, ends);
}

LogitRows LaidOutProgram::prefill(std::span<const Prompt> prompts, std::span<const int32_t> ends) {
  const CacheShape& cache = layout_.cache;
  const auto count = static_cast<size_t>(cache.prompts), length = static_cast<size_t>(cache.prompt_tokens);
  if (prompts.size() > count) throw std::logic_error("more prompts than prefill takes");
  std::vector<int32_t> tokens(count * length, 0), rows(count, -1), all_ends(count, 0);
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].tokens.empty() || prompts[i].tokens.size() > length)
      throw std::logic_error("a prompt of a length that prefill does not take");
    std::ranges::copy(prompts[i].tokens, tokens.begin() + static_cast<std::ptrdiff_t>(i * length));
    rows[i] = static_cast<int32_t>(prompts[i].sequence);
    all_ends[i] = ends[i];
  }
  refresh_working_copies();
  write_ids(layout_.inputs.prompts, tokens);
  write_ids(layout_.inputs.prompt_rows, rows);
  write_ids(layout_.inputs.prompt_ends, all_ends);
  compute(Function::prefill);
  const Place place = layout_.results.prompt_logits;
  return {result(place).data(), place.elements / cache.prompts, layout_.results.vocab_size};
}

void LaidOutProgram::compute_decode(std::span<const int32_t> tokens, std::span<const int32_t> positions,
                                    std::vector<Input> others) {
  const auto count = static_cast<size_t>(layout_.cache.sequences);
  if (tokens.size() != count || positions.size() != count)
    throw std::logic_error("decode takes a token of every sequence");
  refresh_working_copies();
  others.push_back({layout_.inputs.next_tokens.offset, std::as_bytes(tokens)});
  others.push_back({layout_.inputs.next_positions.offset, std::as_bytes(positions)});
  copy_inputs(others);
  compute(Function::decode);
}

LogitRows LaidOutProgram::decode(std::span<const int32_t> tokens, std::span<const int32_t> positions) {
  compute_decode(tokens, positions, {});
  const Place place = layout_.results.next_logits;
  return {result(place).data(), place.elements / layout_.cache.sequences, layout_.results.vocab_size};
}

std::vector<TopLogits> LaidOutProgram::decode_top(std::span<const int32_t> tokens,
                                                  std::span<const int32_t> positions,
                                                  const TopRequest& request) {
  const ResultPlaces& places = layout_.results;
  const auto inverse_temperature = static_cast<float>(1 / request.temperature);
  const auto vocabulary = static_cast<int32_t>(std::min(request.vocabulary, places.vocab_size));
  const std::vector<float> uniforms = in_two_floats(request.uniforms, layout_.cache.sequences);
  const InputPlaces& inputs = layout_.inputs;
  compute_decode(tokens, positions,
                 {{inputs.inverse_temperature.offset, std::as_bytes(std::span(&inverse_temperature, 1))},
                  {inputs.vocabulary.offset, std::as_bytes(std::span(&vocabulary, 1))},
                  {inputs.uniforms.offset, std::as_bytes(std::span(uniforms))}});
  // One copy of where all of them lie, instead of one each.
  const Place all[] = {places.top_values, places.top_ids, places.top_sums, places.drawn};
  const int64_t first = std::ranges::min(all, {}, &Place::offset).offset;
  int64_t end = 0;
  for (const Place& place : all) end = std::max(end, place.offset + place.elements * int64_t{4});
  top_.resize(static_cast<size_t>(end - first));
  copy_results(first, top_);
  std::vector<TopLogits> rows;
  for (int64_t i = 0; i < layout_.cache.sequences; ++i) rows.push_back(top_of(i, first));
  return rows;
}

TopLogits LaidOutProgram::top_of(int64_t sequence, int64_t first) const {
  const ResultPlaces& places = layout_.results;
  const int64_t count = layout_.cache.top;
  const auto at = [&](Place place, int64_t element) {
    return top_.data() + (place.offset - first) + element * int64_t{4};
  };
  const auto* values = reinterpret_cast<const float*>(at(places.top_values, sequence * count));
  const auto* ids = reinterpret_cast<const int32_t*>(at(places.top_ids, sequence * count));
  float sum = 0;
  int32_t drawn = -1;
  std::memcpy(&sum, at(places.top_sums, sequence), sizeof sum);
  std::memcpy(&drawn, at(places.drawn, sequence), sizeof drawn);
  return {std::span(values, static_cast<size_t>(count)), std::span(ids, static_cast<size_t>(count)), sum,
          drawn};
}

std::span<const float> LaidOutProgram::decoded_logits(int64_t sequence) {
  const Place all = layout_.results.next_logits;
  const int64_t stride = all.elements / layout_.cache.sequences;
  const Place row{all.offset + sequence * stride * static_cast<int64_t>(sizeof(float)), stride};
  return result(row).first(static_cast<size_t>(layout_.results.vocab_size));
}

TargetLosses LaidOutProgram::score(const Batch& batch) {
  const ResultPlaces& places = layout_.results;
  const auto of = [&](Function function, Place place) {
    refresh_working_copies();
    compute(function, batch);
    const std::span<const float> losses = result(place);
    return std::vector(losses.begin(), losses.end());
  };
  TargetLosses losses{of(Function::score, places.target_losses), {}};
  if (places.base_target_losses) losses.base = of(Function::score_base, places.base_target_losses);
  return losses;
}

void LaidOutProgram::clear_replies() {
  const Place sums = layout_.results.reply_embeddings;
  write_floats(sums, std::vector<float>(static_cast<size_t>(sums.elements), 0.0f));
}

ReplyDistances LaidOutProgram::reply_distances() {
  const auto read = [&](Place place) {
    const std::span<const float> numbers = result(place);
    return std::vector(numbers.begin(), numbers.end());
  };
  return {read(layout_.results.reply_distance), read(layout_.results.reply_distances)};
}

std::optional<std::string> LaidOutProgram::step_through(Function function, bool look) {
  const std::vector<TracedCall> calls = layout_.calls.of(to_string(function));
  const ReadArena read = reader_of(*this);
  struct Found {};
  std::optional<std::string> found;
  size_t next = 0;
  const CallListener listener([&](void*) {
    wait();
    if (look && (found = non_finite_results(calls.at(next), read))) throw Found();
    ++next;
  });
  try {
    run(function);
  } catch (const Found&) {
  } catch (const RunError& error) {
    if (next == calls.size()) throw;
    throw RunError(fmt::format("{} failed: {}", calls[next].text(), error.what()));
  }
  return found;
}

void LaidOutProgram::run_checked(Function function) {
  if (const auto found = step_through(function, !layout_.state.loss_scale)) throw RunError(*found);
}

// The update that follows ends where it would change parameters: at the first number that is not finite, or
// never, when all are.
std::optional<std::string> LaidOutProgram::repeat(const LastRun& run) {
  if (computes_together()) return std::nullopt;  // a part of a layer gives no numbers of the model
  if (run.inputs.empty()) return step_through(Function::evaluate, true);
  const auto micro_batches = static_cast<int64_t>(run.inputs.size());
  Counters now = counters();
  now.rng_step -= run.later_micro_batches + micro_batches * (ranks_ ? ranks_->size() : 1);
  set_counters(now);
  alone_ = true;
  for (int64_t i = 0; i < micro_batches; ++i) {
    copy_in(0, run.inputs[static_cast<size_t>(i)]);
    if (const auto found = step_through(Function::micro_step, true)) {
      return micro_batches == 1 ? *found
                                : fmt::format("in micro-batch {} of {}, {}", i + 1, micro_batches, *found);
    }
  }
  // An update of several ranks is a step of all of them; not all may come to it.
  return ranks_ ? std::nullopt : step_through(Function::update, true);
}

std::string LaidOutProgram::explain_divergence() {
  if (layout_.calls.empty()) return "";
  const ReadArena read = reader_of(*this);
  if (const auto found = non_finite_tensor(own_tensors(layout_.parameters), "parameter", read)) return *found;
  if (const auto found = non_finite_tensor(layout_.base_parameters, "parameter", read)) return *found;
  if (const auto found = non_finite_tensor(own_tensors(layout_.optimizer_state), "optimizer state", read))
    return *found;
  if (const auto found = repeat(last_run())) return "first, " + *found;
  if (ranks_) return "";
  return "repeated call by call it gives finite numbers only: a fault of the hardware, or of hydrac";
}

}  // namespace hydrac::runtime
