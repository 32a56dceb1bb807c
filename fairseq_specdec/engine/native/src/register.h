// One vector register of 32-bit lanes: all that the products need to know of an instruction set.
//
// simd.h's vectors of 16 floats may take several registers; a product's tile counts registers, so
// that its sums never leave them.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace specdec {

#if defined(__AVX512F__) && defined(__AVX512BW__)
typedef __m512 FloatRegister;
typedef __m512i WordRegister;
constexpr int kRegisters = 32;
#elif defined(__AVX2__) && defined(__FMA__)
typedef __m256 FloatRegister;
typedef __m256i WordRegister;
constexpr int kRegisters = 16;
#elif defined(__ARM_NEON) && defined(__aarch64__)
typedef float32x4_t FloatRegister;
typedef uint32x4_t WordRegister;
constexpr int kRegisters = 32;
#else
#error "compile for x86-64-v3 or better, or for AArch64"
#endif

constexpr int kWidth = static_cast<int>(sizeof(FloatRegister) / 4);  // lanes of a register

typedef int32_t IntRegister __attribute__((vector_size(4 * kWidth)));
typedef int16_t ShortRegister __attribute__((vector_size(4 * kWidth)));

inline IntRegister as_ints(WordRegister v) { return reinterpret_cast<IntRegister>(v); }
inline WordRegister as_words(IntRegister v) { return reinterpret_cast<WordRegister>(v); }
inline FloatRegister as_floats(WordRegister v) { return reinterpret_cast<FloatRegister>(v); }

// From and to any address that a number may have.
template <typename Register>
inline Register load_register(const void* from) {
  Register v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline FloatRegister load_floats(const float* from) { return load_register<FloatRegister>(from); }
inline WordRegister load_words(const uint32_t* from) { return load_register<WordRegister>(from); }
inline IntRegister load_ints(const int32_t* from) { return load_register<IntRegister>(from); }
inline void store_floats(float* to, FloatRegister v) { std::memcpy(to, &v, sizeof v); }
inline WordRegister splat_word(uint32_t bits) {
  return as_words(static_cast<int32_t>(bits) - IntRegister{});
}
inline FloatRegister splat_float(uint32_t bits) { return as_floats(splat_word(bits)); }

// Bytes 0 and 2 (1 and 3) of each word as two signed numbers of 16 bits.
inline WordRegister even_bytes(WordRegister v) {
  return reinterpret_cast<WordRegister>((reinterpret_cast<ShortRegister>(v) << 8) >> 8);
}
inline WordRegister odd_bytes(WordRegister v) {
  return reinterpret_cast<WordRegister>(reinterpret_cast<ShortRegister>(v) >> 8);
}

// a b + sum, rounded once; kWidth halves as floats; the two products of such numbers in a word, added
// (no step can overflow); the larger one of each lane, b where one is NaN; whether a lane is as large
// as a number; the sum and the largest of all lanes, the upper half added to (compared with) the lower
// one until one is left.
#if defined(__AVX512F__)

inline FloatRegister fused(FloatRegister a, FloatRegister b, FloatRegister sum) {
  return _mm512_fmadd_ps(a, b, sum);
}
inline FloatRegister load_halves(const uint32_t* from) {
  // maskz: GCC 12 warns of the unmasked one's undefined lanes
  return _mm512_maskz_cvtph_ps(0xffff, load_register<__m256i>(from));
}
inline WordRegister dot_pairs(WordRegister a, WordRegister b) { return _mm512_madd_epi16(a, b); }
inline FloatRegister larger_of(FloatRegister a, FloatRegister b) { return a > b ? a : b; }
inline bool any_from(FloatRegister v, float least) {
  return _mm512_cmp_ps_mask(v, _mm512_set1_ps(least), _CMP_GE_OQ) != 0;
}

#elif defined(__AVX2__)

inline FloatRegister fused(FloatRegister a, FloatRegister b, FloatRegister sum) {
  return _mm256_fmadd_ps(a, b, sum);
}
inline FloatRegister load_halves(const uint32_t* from) {
  return _mm256_cvtph_ps(load_register<__m128i>(from));
}
inline WordRegister dot_pairs(WordRegister a, WordRegister b) { return _mm256_madd_epi16(a, b); }
inline FloatRegister larger_of(FloatRegister a, FloatRegister b) { return _mm256_max_ps(a, b); }
inline bool any_from(FloatRegister v, float least) {
  return _mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_set1_ps(least), _CMP_GE_OQ)) != 0;
}

#else

inline FloatRegister fused(FloatRegister a, FloatRegister b, FloatRegister sum) {
  return vfmaq_f32(sum, a, b);
}
inline FloatRegister load_halves(const uint32_t* from) {
  return vcvt_f32_f16(vreinterpret_f16_u32(vld1_u32(from)));
}
inline WordRegister dot_pairs(WordRegister a, WordRegister b) {
  const int16x8_t x = vreinterpretq_s16_u32(a), w = vreinterpretq_s16_u32(b);
  const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(w));
  return vreinterpretq_u32_s32(vpaddq_s32(low, vmull_high_s16(x, w)));
}
inline FloatRegister larger_of(FloatRegister a, FloatRegister b) { return a > b ? a : b; }
inline bool any_from(FloatRegister v, float least) {
  return vmaxvq_u32(vcgeq_f32(v, vdupq_n_f32(least))) != 0;
}
inline float sum_of(FloatRegister v) {
  const float32x2_t two = vadd_f32(vget_low_f32(v), vget_high_f32(v));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float largest_of(FloatRegister v) {
  const auto larger = [](float a, float b) { return a > b ? a : b; };
  return larger(larger(v[3], v[1]), larger(v[2], v[0]));
}

#endif

// sums + x w of four bytes each, x without a sign: one instruction, where there is one.
#if defined(__AVX512VNNI__)
#define SPECDEC_DOT_BYTES 1
inline WordRegister dot_bytes(WordRegister sums, WordRegister x, WordRegister w) {
  return _mm512_dpbusd_epi32(sums, x, w);
}
#elif defined(__AVXVNNI__) && !defined(__AVX512F__)
#define SPECDEC_DOT_BYTES 1
inline WordRegister dot_bytes(WordRegister sums, WordRegister x, WordRegister w) {
  return _mm256_dpbusd_avx_epi32(sums, x, w);
}
#endif

#if defined(__AVX2__)
// MAXPS gives its second operand where one is NaN, as `a > b ? a : b` does.
inline float sum_of(__m128 four) {
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(two) + _mm_cvtss_f32(_mm_movehdup_ps(two));
}
inline float largest_of(__m128 four) {
  const __m128 two = _mm_max_ps(_mm_movehl_ps(four, four), four);
  return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(two), two));
}
inline float sum_of(__m256 eight) {
  return sum_of(_mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
}
inline float largest_of(__m256 eight) {
  return largest_of(_mm_max_ps(_mm256_extractf128_ps(eight, 1), _mm256_castps256_ps128(eight)));
}
#endif
#if defined(__AVX512F__)
inline __m256 half_of(FloatRegister v, int half) {
  __m256 halves[2];
  std::memcpy(halves, &v, sizeof v);
  return halves[half];
}
inline float sum_of(FloatRegister v) { return sum_of(half_of(v, 0) + half_of(v, 1)); }
inline float largest_of(FloatRegister v) {
  return largest_of(_mm256_max_ps(half_of(v, 1), half_of(v, 0)));
}
#endif

// Half precision (IEEE binary16): the nearest one of a float, and the float that one stands for.
#if defined(__ARM_NEON)
inline uint16_t to_half(float value) {
  return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(value))), 0);
}
inline float from_half(uint16_t half) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
}
#else
inline uint16_t to_half(float value) { return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT); }
inline float from_half(uint16_t half) { return _cvtsh_ss(half); }
#endif

inline FloatRegister rounded(IntRegister v) {
  return reinterpret_cast<FloatRegister>(__builtin_convertvector(v, FloatRegister));
}

// 0 for negative lanes; NaN stays NaN.
inline FloatRegister positive(FloatRegister v) { return v < 0.0f ? FloatRegister{} : v; }

}  // namespace specdec
