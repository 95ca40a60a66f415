#include "runtime/train/generation/reply_scores.h"

namespace hydrac::runtime {

namespace {

std::vector<float> all_of(StepProgram& program, Place port) {
  const std::span<const float> numbers = program.read_as<float>(port);
  return {numbers.begin(), numbers.end()};
}

}  // namespace

TargetLosses score(StepProgram& program, const Batch& batch) {
  const ResultPlaces& results = program.ports().results;
  program.compute(Function::score, &batch);
  TargetLosses losses{all_of(program, results.target_losses), {}};
  if (results.base_target_losses) {
    program.compute(Function::score_base, &batch);
    losses.base = all_of(program, results.base_target_losses);
  }
  return losses;
}

void clear_replies(StepProgram& program) {
  const Place sums = program.ports().results.reply_embeddings;
  const std::vector<float> zeros(static_cast<size_t>(sums.elements), 0.0f);
  const PortBytes cleared[] = {port_bytes(sums, std::span(zeros))};
  program.write_ports(cleared);
}

void embed(StepProgram& program, const Batch& texts) {
  const InputPlaces& ports = program.ports().inputs;
  const PortBytes inputs[] = {port_bytes(ports.text_tokens, std::span(texts.tokens)),
                              port_bytes(ports.text_documents, std::span(texts.documents)),
                              port_bytes(ports.text_positions, std::span(texts.positions)),
                              port_bytes(ports.text_segments, std::span(texts.segments))};
  program.write_ports(inputs);
  program.compute(Function::embed);
}

ReplyDistances reply_distances(StepProgram& program) {
  const ResultPlaces& results = program.ports().results;
  return {all_of(program, results.reply_distance), all_of(program, results.reply_distances)};
}

}  // namespace hydrac::runtime
