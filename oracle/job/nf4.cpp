#include "oracle/job/nf4.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <vector>

#include "oracle/job/quantize.h"

namespace hydrac::oracle {

namespace {

constexpr std::int64_t kBlock = 64, kGroup = 256;
// Table 1 of the paper's appendix, with the digits of float32 that bitsandbytes has.
constexpr double kNormalFloat[] = {-1.0,
                                   -0.6961928009986877,
                                   -0.5250730514526367,
                                   -0.39491748809814453,
                                   -0.28444138169288635,
                                   -0.18477343022823334,
                                   -0.09105003625154495,
                                   0.0,
                                   0.07958029955625534,
                                   0.16093020141124725,
                                   0.24611230194568634,
                                   0.33791524171829224,
                                   0.44070982933044434,
                                   0.5626170039176941,
                                   0.7229568362236023,
                                   1.0};

// Between neighbours, the float32 constants that bitsandbytes compares with: of millions of numbers some lie
// within rounding of the middle, and 0.12 is not the middle to the last bit.
constexpr float kBorders[] = {-0.8480964004993439f,   -0.6106329262256622f,  -0.4599952697753906f,
                              -0.33967943489551544f,  -0.23460740596055984f, -0.13791173323988914f,
                              -0.045525018125772476f, 0.03979014977812767f,  0.1202552504837513f,
                              0.2035212516784668f,    0.2920137718319893f,   0.3893125355243683f,
                              0.5016634166240692f,    0.6427869200706482f,   0.8614784181118011f};

double nearest(float x) {
  return kNormalFloat[std::lower_bound(std::begin(kBorders), std::end(kBorders), x) - std::begin(kBorders)];
}

}  // namespace

void store_as_nf4(double* numbers, std::int64_t count) {
  std::vector<double> largest;
  double mean = 0;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    largest.push_back(0);
    for (std::int64_t i = first; i < first + kBlock; ++i)
      largest.back() = std::max(largest.back(), std::abs(numbers[i]));
    const float inverse = largest.back() > 0 ? 1 / static_cast<float>(largest.back()) : 0;
    for (std::int64_t i = first; i < first + kBlock; ++i)
      numbers[i] = nearest(static_cast<float>(numbers[i]) * inverse);
    mean += largest.back();
  }
  const auto blocks = static_cast<std::int64_t>(largest.size());
  mean = static_cast<float>(mean / static_cast<double>(blocks));  // float32, as is what is left
  for (double& magnitude : largest) magnitude = static_cast<float>(magnitude - mean);
  for (std::int64_t first = 0; first < blocks; first += kGroup)
    quantize_block(&largest[static_cast<std::size_t>(first)], std::min(kGroup, blocks - first), true);
  for (std::int64_t i = 0; i < count; ++i) numbers[i] *= largest[static_cast<std::size_t>(i / kBlock)] + mean;
}

}  // namespace hydrac::oracle
