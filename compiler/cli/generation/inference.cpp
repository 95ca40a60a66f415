#include "cli/generation/inference.h"

#include <fmt/format.h>

#include "models/adapter.h"
#include "runtime/error.h"
#include "runtime/train/initial_weights.h"
#include "runtime/train/run/run_checkpoint.h"
#include "spec/hugging_face/hugging_face.h"

namespace hydrac::cli {

void freeze_for_inference(spec::Spec& spec) {
  auto& names = spec.train.freeze;
  const spec::Family& family = spec::family_of(spec);
  const std::string in_layer = family.tensor("attn.q.weight");
  names = {family.tensor("token_embedding.weight"), in_layer.substr(0, in_layer.find("{}")) + "*"};
  if (spec.model.position == spec::Position::learned)
    names.push_back(family.tensor("position_embedding.weight"));
  if (!spec.model.tie_word_embeddings) names.push_back(family.tensor("head.weight"));
}

void fill_from_checkpoint(runtime::StepProgram& program, const spec::Spec& spec,
                          const std::filesystem::path& checkpoint) {
  if (models::has_adapters(spec) && spec::begins_with_weights(spec)) {
    const runtime::WeightFiles weights(spec.model.weights);
    if (runtime::read_identity(checkpoint, runtime::kBaseIdentity) != weights.fingerprint())
      throw runtime::InputError(
          fmt::format("{}: the adapter was trained beside other weights than those of {}",
                      checkpoint.string(), spec.model.weights));
    weights.start(program);
  } else {
    program.start(program.tensors().parameters);
  }
  runtime::load_parameters(program, checkpoint);
}

}  // namespace hydrac::cli
