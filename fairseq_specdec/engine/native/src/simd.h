// Vectors of 16 floats, and the few functions of them that the kernels share.
//
// GCC's and Clang's vector extensions become one 512-bit register, two of 256 bits or four of 128,
// so that this file and most kernels are written once. Sums over lanes always add the lanes in the
// same order: a result has the same bits whatever else is computed beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace specdec {

constexpr int LANES = 16;

typedef float Floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

inline Floats load(const float* from) { return *reinterpret_cast<const Floats*>(from); }
inline void store(float* to, Floats value) { *reinterpret_cast<Floats*>(to) = value; }
inline Floats splat(float value) { return value - Floats{}; }
inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

// By halves: four operations wait for each other, not sixteen.
inline float sum(Floats v) {
#pragma GCC unroll 4
  for (int n = LANES / 2; n > 0; n /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) v[i] += v[i + n];
  return v[0];
}

inline float largest(Floats v) {
#pragma GCC unroll 4
  for (int n = LANES / 2; n > 0; n /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) v[i] = v[i + n] > v[i] ? v[i + n] : v[i];
  return v[0];
}

// e^x for x <= 88 to within 2 units in the last place: 2^n times a polynomial in the rest (Cephes'
// expf). Below -87 it is e^-87; of NaN it is NaN.
inline Floats exponential(Floats x) {
  x = x < -87.0f ? splat(-87.0f) : x;
  const Floats rounder = splat(12582912.0f);  // 1.5 x 2^23: adding it rounds to a whole number
  Floats n = x * 1.44269504088896341f + rounder;
  const Ints exponent = reinterpret_cast<Ints>(n) - reinterpret_cast<Ints>(rounder) + 127;
  n = n - rounder;
  Floats rest = x - n * 0.693359375f;
  rest = rest - n * -2.12194440e-4f;
  Floats p = splat(1.9875691500e-4f);
  p = p * rest + 1.3981999507e-3f;
  p = p * rest + 8.3334519073e-3f;
  p = p * rest + 4.1665795894e-2f;
  p = p * rest + 1.6666665459e-1f;
  p = p * rest + 5.0000001201e-1f;
  p = p * rest * rest + rest + 1.0f;
  return p * reinterpret_cast<Floats>(exponent << 23);
}

inline Floats hyperbolic_tangent(Floats x) {
  const Floats size = x < 0.0f ? -x : x;
  const Floats decay = exponential(-2.0f * (size > 9.0f ? splat(9.0f) : size));
  const Floats t = (1.0f - decay) / (1.0f + decay);
  return x < 0.0f ? -t : t;
}

// A float's upper 16 bits, rounded to the nearest even one.
inline uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);  // NaN
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float from_bf16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

// 16 bf16 numbers as floats.
inline Floats load_bf16(const uint16_t* from) {
  typedef uint16_t Halves __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
  typedef uint32_t Words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
  const Halves halves = *reinterpret_cast<const Halves*>(from);
  return reinterpret_cast<Floats>(__builtin_convertvector(halves, Words) << 16);
}

inline int rounded_up(int count, int step) { return (count + step - 1) / step * step; }

}  // namespace specdec
