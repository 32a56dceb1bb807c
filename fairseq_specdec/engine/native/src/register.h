// One vector register of 32-bit lanes: all that the products need to know of an instruction set.
//
// simd.h's vectors of 16 floats may take several registers; a product's tile counts registers, so
// that its sums never leave them.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace specdec {

// sum_of and largest_of add (compare) the upper half of the lanes to the lower one until one is left.
// Beside loads, stores and splats of words, load_halves widens kWidth halves. Three are for int8:
// even_bytes and odd_bytes give bytes 0 and 2 (1 and 3) of a word as two signed numbers of 16 bits,
// and dot_pairs multiplies two such words and adds the two products. No step of them can overflow.

#if defined(__AVX512F__) && defined(__AVX512BW__)

typedef __m512 FloatRegister;
typedef __m512i WordRegister;
constexpr int kRegisters = 32;

inline FloatRegister load_floats(const float* from) { return _mm512_loadu_ps(from); }
inline void store_floats(float* to, FloatRegister v) { _mm512_storeu_ps(to, v); }
inline WordRegister load_words(const uint32_t* from) { return _mm512_loadu_si512(from); }
inline FloatRegister as_floats(WordRegister v) { return _mm512_castsi512_ps(v); }
inline FloatRegister splat_float(uint32_t bits) {
  return as_floats(_mm512_set1_epi32(static_cast<int>(bits)));
}
inline WordRegister splat_word(uint32_t bits) { return _mm512_set1_epi32(static_cast<int>(bits)); }
inline FloatRegister fused(FloatRegister a, FloatRegister b, FloatRegister sum) {
  return _mm512_fmadd_ps(a, b, sum);
}
inline FloatRegister load_halves(const uint32_t* from) {
  // maskz: GCC 12 warns of the unmasked one's undefined lanes
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline WordRegister even_bytes(WordRegister v) {
  return _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8);
}
inline WordRegister odd_bytes(WordRegister v) { return _mm512_srai_epi16(v, 8); }
inline WordRegister dot_pairs(WordRegister a, WordRegister b) { return _mm512_madd_epi16(a, b); }
inline FloatRegister larger_of(FloatRegister a, FloatRegister b) { return a > b ? a : b; }
inline bool any(__mmask16 lanes) { return lanes != 0; }
inline bool any_equal_to(FloatRegister v, float to) {
  return any(_mm512_cmp_ps_mask(v, _mm512_set1_ps(to), _CMP_EQ_OQ));
}
inline bool any_above(FloatRegister v, float than) {
  return any(_mm512_cmp_ps_mask(v, _mm512_set1_ps(than), _CMP_GT_OQ));
}
// GCC has the builtin from 12 on, whose intrinsics warn of undefined lanes.
#if defined(__clang__) || __GNUC__ >= 12
inline __m256 lower_half(FloatRegister v) {
  return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
}
inline __m256 upper_half(FloatRegister v) {
  return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
}
#else
inline __m256 lower_half(FloatRegister v) { return _mm512_castps512_ps256(v); }
inline __m256 upper_half(FloatRegister v) { return _mm512_extractf32x8_ps(v, 1); }
#endif

#elif defined(__AVX2__) && defined(__FMA__)

typedef __m256 FloatRegister;
typedef __m256i WordRegister;
constexpr int kRegisters = 16;

inline FloatRegister load_floats(const float* from) { return _mm256_loadu_ps(from); }
inline void store_floats(float* to, FloatRegister v) { _mm256_storeu_ps(to, v); }
inline WordRegister load_words(const uint32_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
inline FloatRegister as_floats(WordRegister v) { return _mm256_castsi256_ps(v); }
inline FloatRegister splat_float(uint32_t bits) {
  return as_floats(_mm256_set1_epi32(static_cast<int>(bits)));
}
inline WordRegister splat_word(uint32_t bits) { return _mm256_set1_epi32(static_cast<int>(bits)); }
inline FloatRegister fused(FloatRegister a, FloatRegister b, FloatRegister sum) {
  return _mm256_fmadd_ps(a, b, sum);
}
inline FloatRegister load_halves(const uint32_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline WordRegister even_bytes(WordRegister v) {
  return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
}
inline WordRegister odd_bytes(WordRegister v) { return _mm256_srai_epi16(v, 8); }
inline WordRegister dot_pairs(WordRegister a, WordRegister b) { return _mm256_madd_epi16(a, b); }
inline FloatRegister larger_of(FloatRegister a, FloatRegister b) { return _mm256_max_ps(a, b); }
inline bool any(__m256 lanes) { return _mm256_movemask_ps(lanes) != 0; }
inline bool any_equal_to(FloatRegister v, float to) {
  return any(_mm256_cmp_ps(v, _mm256_set1_ps(to), _CMP_EQ_OQ));
}
inline bool any_above(FloatRegister v, float than) {
  return any(_mm256_cmp_ps(v, _mm256_set1_ps(than), _CMP_GT_OQ));
}

#elif defined(__ARM_NEON) && defined(__aarch64__)

typedef float32x4_t FloatRegister;
typedef uint32x4_t WordRegister;
constexpr int kRegisters = 32;

inline FloatRegister load_floats(const float* from) { return vld1q_f32(from); }
inline void store_floats(float* to, FloatRegister v) { vst1q_f32(to, v); }
inline WordRegister load_words(const uint32_t* from) { return vld1q_u32(from); }
inline FloatRegister as_floats(WordRegister v) { return vreinterpretq_f32_u32(v); }
inline FloatRegister splat_float(uint32_t bits) { return as_floats(vdupq_n_u32(bits)); }
inline WordRegister splat_word(uint32_t bits) { return vdupq_n_u32(bits); }
inline FloatRegister fused(FloatRegister a, FloatRegister b, FloatRegister sum) {
  return vfmaq_f32(sum, a, b);
}
inline FloatRegister load_halves(const uint32_t* from) {
  return vcvt_f32_f16(vreinterpret_f16_u32(vld1_u32(from)));
}
inline int16x8_t as_halves(WordRegister v) { return vreinterpretq_s16_u32(v); }
inline WordRegister even_bytes(WordRegister v) {
  return vreinterpretq_u32_s16(vshrq_n_s16(vshlq_n_s16(as_halves(v), 8), 8));
}
inline WordRegister odd_bytes(WordRegister v) {
  return vreinterpretq_u32_s16(vshrq_n_s16(as_halves(v), 8));
}
inline WordRegister dot_pairs(WordRegister a, WordRegister b) {
  const int32x4_t low = vmull_s16(vget_low_s16(as_halves(a)), vget_low_s16(as_halves(b)));
  return vreinterpretq_u32_s32(vpaddq_s32(low, vmull_high_s16(as_halves(a), as_halves(b))));
}

inline FloatRegister larger_of(FloatRegister a, FloatRegister b) { return a > b ? a : b; }
inline bool any_equal_to(FloatRegister v, float to) {
  return vmaxvq_u32(vceqq_f32(v, vdupq_n_f32(to))) != 0;
}
inline bool any_above(FloatRegister v, float than) {
  return vmaxvq_u32(vcgtq_f32(v, vdupq_n_f32(than))) != 0;
}
inline float sum_of(FloatRegister v) {
  const float32x2_t two = vadd_f32(vget_low_f32(v), vget_high_f32(v));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float largest_of(FloatRegister v) {
  const auto larger = [](float a, float b) { return a > b ? a : b; };
  return larger(larger(v[3], v[1]), larger(v[2], v[0]));
}

#else
#error "compile for x86-64-v3 or better, or for AArch64"
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
inline float sum_of(FloatRegister v) { return sum_of(lower_half(v) + upper_half(v)); }
inline float largest_of(FloatRegister v) {
  return largest_of(_mm256_max_ps(upper_half(v), lower_half(v)));
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

constexpr int kWidth = static_cast<int>(sizeof(FloatRegister) / 4);  // lanes of a register

typedef int32_t IntRegister __attribute__((vector_size(4 * kWidth)));

inline IntRegister as_ints(WordRegister v) { return reinterpret_cast<IntRegister>(v); }
inline WordRegister as_words(IntRegister v) { return reinterpret_cast<WordRegister>(v); }
inline IntRegister load_ints(const int32_t* from) {
  return as_ints(load_words(reinterpret_cast<const uint32_t*>(from)));
}
inline FloatRegister rounded(IntRegister v) {
  return reinterpret_cast<FloatRegister>(__builtin_convertvector(v, FloatRegister));
}

// 0 for negative lanes; NaN stays NaN.
inline FloatRegister positive(FloatRegister v) { return v < 0.0f ? FloatRegister{} : v; }

}  // namespace specdec
