// Every op. A new one adds its file and a line here.
#include <stdexcept>

#include "ops/op.h"

namespace hydrac::ops {

extern const OpInfo kAdd, kAttention, kAttentionBackward, kBiasAdd, kBiasGradient, kCast, kCrossEntropy,
    kCrossEntropyBackward, kDropout, kEmbedding, kEmbeddingBackward, kGated, kGatedBackward, kGemm, kJoinQkv,
    kLayernorm, kLayernormAgain, kLayernormBackward, kLayernormWeightGradient, kLinear, kMeanLoss,
    kMeanLossBackward, kMse, kMseBackward, kPointwiseLoss, kPointwiseLossBackward, kPositionEmbedding,
    kPositionEmbeddingGradient, kRmsnorm, kRmsnormAgain, kRmsnormBackward, kRmsnormWeightGradient, kRope,
    kSelectToken, kSoftcap, kSoftcapBackward, kSplitQkv, kActivation, kActivationBackward, kZero;

const std::vector<const OpInfo*>& all_ops() {
  static const std::vector<const OpInfo*> ops = {
      &kAdd,
      &kAttention,
      &kAttentionBackward,
      &kBiasAdd,
      &kBiasGradient,
      &kCast,
      &kCrossEntropy,
      &kCrossEntropyBackward,
      &kDropout,
      &kEmbedding,
      &kEmbeddingBackward,
      &kGated,
      &kGatedBackward,
      &kGemm,
      &kJoinQkv,
      &kLayernorm,
      &kLayernormAgain,
      &kLayernormBackward,
      &kLayernormWeightGradient,
      &kLinear,
      &kMeanLoss,
      &kMeanLossBackward,
      &kMse,
      &kMseBackward,
      &kPointwiseLoss,
      &kPointwiseLossBackward,
      &kPositionEmbedding,
      &kPositionEmbeddingGradient,
      &kRmsnorm,
      &kRmsnormAgain,
      &kRmsnormBackward,
      &kRmsnormWeightGradient,
      &kRope,
      &kSelectToken,
      &kSoftcap,
      &kSoftcapBackward,
      &kSplitQkv,
      &kActivation,
      &kActivationBackward,
      &kZero,
  };
  return ops;
}

const OpInfo& op_info(std::string_view name) {
  for (const OpInfo* op : all_ops()) {
    if (op->name == name) return *op;
  }
  throw std::logic_error("unknown op " + std::string(name));
}

}  // namespace hydrac::ops
