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

#else
#error "compile for x86-64-v3 or better, or for AArch64"
#endif

constexpr int kWidth = static_cast<int>(sizeof(FloatRegister) / 4);  // lanes of a register

// 0 for negative lanes; NaN stays NaN.
inline FloatRegister positive(FloatRegister v) { return v < 0.0f ? FloatRegister{} : v; }

}  // namespace specdec
