// Every op. A new one adds its file and a line here.
#include <stdexcept>

#include "ops/op.h"

namespace hydrac::ops {

extern const OpInfo kActivation, kActivationBackward, kAdapterMatrix, kAdapterRows, kAdd, kAllGather,
    kAllReduce, kAttention, kAttentionBackward, kAttentionDecode, kBiasAdd, kBiasGradient, kBlockDiagonal,
    kCacheAppend, kCast, kCrossEntropy, kCrossEntropyBackward, kCrossEntropyOfParts,
    kCrossEntropyOfPartsBackward, kCrossEntropyPart, kCrossEntropyPartBackward, kDequantizeNf4,
    kDiagonalBlocks, kDropout, kEmbedding, kEmbeddingBackward, kGated, kGatedBackward, kGemm, kHeadSum, kHits,
    kJoinQkv, kL2norm, kL2normBackward, kL2normTemperatureGradient, kLargest, kLayernorm, kLayernormAgain,
    kLayernormBackward, kLayernormWeightGradient, kLinear, kMeanLoss, kMeanLossBackward, kMse, kMseBackward,
    kOneHot, kOwnPart, kPairwiseCosineDistance, kPairwiseCosineDistanceBackward, kPointwiseLoss,
    kPointwiseLossBackward, kPositionEmbedding, kPositionEmbeddingGradient, kQuantize, kReduceScatter,
    kRmsnorm, kRmsnormAgain, kRmsnormBackward, kRmsnormWeightGradient, kRope, kScaleHeads, kScaleRows,
    kScaled, kSelectToken, kSoftcap, kSoftcapBackward, kSplitQkv, kSpreadTaps, kSumOverRanks, kSumTaps,
    kTopLogits, kTransfer, kTranspose, kValueShift, kZero;

const std::vector<const OpInfo*>& all_ops() {
  static const std::vector<const OpInfo*> ops = {
      &kAdapterMatrix,
      &kAdapterRows,
      &kAdd,
      &kAllGather,
      &kAllReduce,
      &kAttention,
      &kAttentionBackward,
      &kAttentionDecode,
      &kBiasAdd,
      &kBiasGradient,
      &kBlockDiagonal,
      &kCacheAppend,
      &kCast,
      &kCrossEntropy,
      &kCrossEntropyBackward,
      &kCrossEntropyOfParts,
      &kCrossEntropyOfPartsBackward,
      &kCrossEntropyPart,
      &kCrossEntropyPartBackward,
      &kDequantizeNf4,
      &kDiagonalBlocks,
      &kDropout,
      &kEmbedding,
      &kEmbeddingBackward,
      &kGated,
      &kGatedBackward,
      &kGemm,
      &kHeadSum,
      &kHits,
      &kJoinQkv,
      &kL2norm,
      &kL2normBackward,
      &kL2normTemperatureGradient,
      &kLargest,
      &kLayernorm,
      &kLayernormAgain,
      &kLayernormBackward,
      &kLayernormWeightGradient,
      &kLinear,
      &kMeanLoss,
      &kMeanLossBackward,
      &kMse,
      &kMseBackward,
      &kOneHot,
      &kPairwiseCosineDistance,
      &kPairwiseCosineDistanceBackward,
      &kOwnPart,
      &kPointwiseLoss,
      &kPointwiseLossBackward,
      &kPositionEmbedding,
      &kPositionEmbeddingGradient,
      &kRmsnorm,
      &kRmsnormAgain,
      &kRmsnormBackward,
      &kRmsnormWeightGradient,
      &kQuantize,
      &kReduceScatter,
      &kRope,
      &kScaled,
      &kScaleHeads,
      &kScaleRows,
      &kSelectToken,
      &kSoftcap,
      &kSoftcapBackward,
      &kSplitQkv,
      &kSpreadTaps,
      &kSumOverRanks,
      &kSumTaps,
      &kActivation,
      &kActivationBackward,
      &kTopLogits,
      &kTransfer,
      &kTranspose,
      &kValueShift,
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
