// Elementary float functions for generated kernels: branch-free, so that GCC and Clang vectorize them inside
// `#pragma omp simd` loops without -ffast-math, and the same source for every target.
// Every result is within 2 ulp of the exact value, denormals included (measured worst cases stand at each
// function); NaN in gives NaN out. The polynomials are minimax fits, rounded to float coefficient by
// coefficient. They need -fno-math-errno -fno-trapping-math to vectorize, and do not depend on -ffp-contract.
#pragma once
#include <cstdint>

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define HYDRAC_FN __host__ __device__ inline
#else
#define HYDRAC_FN inline
#endif

namespace hydrac {

HYDRAC_FN std::uint32_t float_bits(float x) {
  return __builtin_bit_cast(std::uint32_t, x);
}
HYDRAC_FN float float_from_bits(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

// a * b + c, rounded once. Without an fma instruction the product is exact in double, and only the sum is
// rounded there first: still vectorized, and almost always the same result.
HYDRAC_FN float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return ::fmaf(a, b, c);
#elif defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__aarch64__) || defined(__CUDA_ARCH__)
  return __builtin_fmaf(a, b, c);
#else
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c));
#endif
}

HYDRAC_FN float abs(float x) {
#if defined(__CUDA_ARCH__)
  return ::fabsf(x);  // free, as part of the instruction that takes it
#else
  return float_from_bits(float_bits(x) & 0x7FFFFFFFu);
#endif
}

// |magnitude| with the sign of `sign`.
HYDRAC_FN float copy_sign(float magnitude, float sign) {
  return float_from_bits((float_bits(magnitude) & 0x7FFFFFFFu) | (float_bits(sign) & 0x80000000u));
}

namespace detail {

// Adding 1.5 * 2^23 rounds a float of magnitude below 2^22 to an integer, which is then in the low bits of
// the sum.
constexpr float kRounder = 12582912.0f;
constexpr std::int32_t kRounderBits = 0x4B400000;

// 2^k for -126 <= k <= 127.
HYDRAC_FN float power_of_two(std::int32_t k) {
  return float_from_bits(static_cast<std::uint32_t>(k + 127) << 23);
}

}  // namespace detail

#if defined(__CUDA_ARCH__)

// The GPU's own approximations, 1 to 2 ulp over their whole range; denormal results are 0.
namespace detail {

__device__ inline float exp2_approximately(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ inline float reciprocal_approximately(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace detail

#endif

// e^x; 0 below -103.98, +inf above 88.73. 1.1 ulp; on a GPU 3 ulp, and 0 below -87.33.
HYDRAC_FN float exp(float x) {
#if defined(__CUDA_ARCH__)
  // 2^y with y = x log2(e) rounded, times a factor 1 + r for what the rounding lost, r = x - y ln 2. If 2^y
  // is 0 or infinite, nothing needs correcting.
  const float y = x * 1.442695041f;
  float r = fma(y, -0x1.62e430p-1f, x);  // ln 2 in two parts
  r = fma(y, 0x1.05c610p-29f, r);
  r = abs(x) < 88.72f ? r : 0.0f;
  const float power = detail::exp2_approximately(y);
  return fma(power, r, power);
#else
  // For very negative x, 0 is selected, not computed: underflow traps to microcode, a hundred times slower,
  // and masked scores are -inf here. For large x the bound keeps k in the range of the two-step scaling
  // below.
  const bool vanishes = x < -104.0f;
  x = vanishes ? 0.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = fma(x, 1.442695022f, detail::kRounder);  // log2(e)
  const float k = shifted - detail::kRounder;
  float r = fma(k, -0x1.62e43p-1f, x);  // ln 2 in two parts
  r = fma(k, 0x1.05c61p-29f, r);
  float p = 0x1.6ac49cp-10f;
  p = fma(p, r, 0x1.123edp-7f);
  p = fma(p, r, 0x1.55585p-5f);
  p = fma(p, r, 0x1.55548ap-3f);
  p = fma(p, r, 0x1.fffffcp-2f);
  p = fma(p * r, r, r) + 1.0f;
  // 2^k in two factors: k reaches 128 and -150, and only the last product rounds a denormal result.
  const std::int32_t k_int = static_cast<std::int32_t>(float_bits(shifted)) - detail::kRounderBits;
  const std::int32_t half = k_int >> 1;
  const float result = p * detail::power_of_two(half) * detail::power_of_two(k_int - half);
  return vanishes ? 0.0f : result;
#endif
}

// Natural logarithm; -inf at 0, NaN below. 1.0 ulp.
HYDRAC_FN float log(float x) {
  constexpr float smallest_normal = 0x1p-126f;
  const bool denormal = x < smallest_normal;
  const float scaled = denormal ? x * 0x1p23f : x;
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)): subtracting the bits of sqrt(1/2) puts the cut there.
  const std::uint32_t offset = float_bits(scaled) - 0x3F3504F3u;
  const std::int32_t e_int = (static_cast<std::int32_t>(offset) >> 23) - (denormal ? 23 : 0);
  const float e = static_cast<float>(e_int);
  const float f = float_from_bits((offset & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
  float p = -0x1.38d1f6p-4f;
  p = fma(p, f, 0x1.0566ep-3f);
  p = fma(p, f, -0x1.0d84d2p-3f);
  p = fma(p, f, 0x1.22d824p-3f);
  p = fma(p, f, -0x1.54721cp-3f);
  p = fma(p, f, 0x1.99a024p-3f);
  p = fma(p, f, -0x1.000228p-2f);
  p = fma(p, f, 0x1.555554p-2f);
  const float square = f * f;
  p = fma(p * f, square, square * -0.5f);
  p = fma(e, -0x1.05c61p-29f, p);
  float result = fma(e, 0x1.62e43p-1f, f + p);
  const float infinity = float_from_bits(0x7F800000u);
  const float nan = float_from_bits(0x7FC00000u);
  result = x < infinity ? result : x;  // inf and NaN stand for themselves
  result = x < 0.0f ? nan : result;
  return x == 0.0f ? -infinity : result;
}

// e^x - 1 without cancellation near 0; -1 below -17.4, +inf above 88.73. 2.5 ulp. With u = e^x rounded, (u -
// 1) / log(u) is (e^x - 1) / x at log(u) instead of x, which is close to x (Kahan).
HYDRAC_FN float expm1(float x) {
  const float u = exp(x);
  const float difference = u - 1.0f;
  const float inside = difference * (x / log(u));
  const bool is_far = abs(x) > 17.5f || u == 0.0f;
  return u == 1.0f ? x : is_far ? difference : inside;
}

// log(1 + x) without cancellation near 0; -inf at -1, NaN below. 2.5 ulp. The factor x / (u - 1) corrects the
// rounding of u = 1 + x, as above.
HYDRAC_FN float log1p(float x) {
  const float u = 1.0f + x;
  const float logarithm = log(u);
  const float near = logarithm * (x / (u - 1.0f));
  return u == 1.0f ? x : abs(x) > 1e8f || x <= -1.0f ? logarithm : near;
}

// 1 / sqrt(x); inf at 0, NaN below. 1.5 ulp; on a GPU 2.
HYDRAC_FN float rsqrt(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return 1.0f / __builtin_sqrtf(x);
#endif
}

// Hyperbolic tangent. 1.5 ulp; on a GPU 2.5.
HYDRAC_FN float tanh(float x) {
  const float t = abs(x);
  const float z = x * x;
  float p = -0x1.750ccap-8f;
  p = fma(p, z, 0x1.51f8ccp-6f);
  p = fma(p, z, -0x1.b835a4p-5f);
  p = fma(p, z, 0x1.1106f6p-3f);
  p = fma(p, z, -0x1.555532p-2f);
  const float near = fma(p * z, t, t);
#if defined(__CUDA_ARCH__)
  const float far = fma(-2.0f, detail::reciprocal_approximately(exp(2.0f * t) + 1.0f), 1.0f);
#else
  const float far = 1.0f - 2.0f / (exp(2.0f * t) + 1.0f);
#endif
  return copy_sign(t < 0.625f ? near : far, x);
}

// The error function. 1.5 ulp.
HYDRAC_FN float erf(float x) {
  const float t = abs(x);
  const float z = x * x;
  float p = -0x1.3ba9cap-11f;
  p = fma(p, z, 0x1.479c9ep-8f);
  p = fma(p, z, -0x1.b69b96p-6f);
  p = fma(p, z, 0x1.ce1b86p-4f);
  p = fma(p, z, -0x1.8126ecp-2f);
  p = fma(p, z, 0x1.06eba6p-3f);
  const float near = fma(p, x, x);
  // Further out: 1 - exp(-t * q(t)), which rounds to 1 before t = 4.
  const float s = t > 4.0f ? 4.0f : t;
  float q = 0x1.694912p-17f;
  q = fma(q, s, -0x1.4d8ccep-12f);
  q = fma(q, s, 0x1.dae202p-9f);
  q = fma(q, s, -0x1.84a2eep-6f);
  q = fma(q, s, 0x1.b2f22p-4f);
  q = fma(q, s, 0x1.45367cp-1f);
  q = fma(q, s, 0x1.20ee9ep+0f);
#if defined(__CUDA_ARCH__)
  // At most 0.2: what the approximation lacks is lost in the difference.
  const float rest = detail::exp2_approximately(q * (s * -1.442695041f));  // log2(e)
#else
  const float rest = exp(-(q * s));
#endif
  const float far = copy_sign(1.0f - rest, x);
  return t < 0.9f ? near : far;
}

// 1 / (1 + e^-x), written so that neither tail loses accuracy. 1.5 ulp; on a GPU 4, and 0 below -87.33.
HYDRAC_FN float sigmoid(float x) {
#if defined(__CUDA_ARCH__)
  return detail::reciprocal_approximately(1.0f + exp(-x));
#else
  const float e = exp(-abs(x));
  const float numerator = x < 0.0f ? e : 1.0f;
  const float q = numerator / (1.0f + e);
  // Puts back what the rounding of 1 + e cost: the residue, divided by 1 + e, is enough.
  const float residue = fma(-q, e, numerator - q);
  return fma(residue, x < 0.0f ? 1.0f - q : q, q);
#endif
}

namespace detail {

// sin(r + quadrant * pi/2), |r| <= pi/4.
HYDRAC_FN float sine_of(float r, std::uint32_t quadrant) {
  const float z = r * r;
  float s = -0x1.9952ecp-13f;
  s = fma(s, z, 0x1.110776p-7f);
  s = fma(s, z, -0x1.555546p-3f);
  s = fma(s * z, r, r);
  float c = 0x1.99e80cp-16f;
  c = fma(c, z, -0x1.6c0c28p-10f);
  c = fma(c, z, 0x1.55554ap-5f);
  c = fma(c * z, z, fma(z, -0.5f, 1.0f));
  const float value = (quadrant & 1u) != 0u ? c : s;
  return float_from_bits(float_bits(value) ^ ((quadrant & 2u) << 30));
}

struct Reduced {
  float r;                 // x - k * pi/2
  std::uint32_t quadrant;  // k modulo 4 in the low bits
};

HYDRAC_FN Reduced reduce_angle(float x) {
  const float shifted = fma(x, 0.6366197467f, kRounder);  // 2 / pi
  const float k = shifted - kRounder;
  float r = fma(k, -0x1.921fb6p+0f, x);  // pi/2 in three parts
  r = fma(k, 0x1.777a5cp-25f, r);
  r = fma(k, 0x1.ee59dap-50f, r);
  return {r, float_bits(shifted)};
}

}  // namespace detail

// Sine and cosine of |x| < 2^20; beyond, accuracy is lost with the size of x. NaN at infinity. 1.9 ulp.
HYDRAC_FN float sin(float x) {
  const detail::Reduced reduced = detail::reduce_angle(x);
  return detail::sine_of(reduced.r, reduced.quadrant);
}
HYDRAC_FN float cos(float x) {
  const detail::Reduced reduced = detail::reduce_angle(x);
  return detail::sine_of(reduced.r, reduced.quadrant + 1u);
}

}  // namespace hydrac
