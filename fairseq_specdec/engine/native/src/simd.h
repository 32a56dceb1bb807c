// Vectors of 16 floats, and the few functions of them that the kernels share.
//
// A vector is one register of 512 bits, two of 256 or four of 128: the compiler would compute wider
// vectors than the machine's in memory, and their comparisons number by number. Sums over lanes
// always add the lanes in the same order: a result has the same bits whatever else is computed
// beside it, and on every processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "register.h"

namespace specdec {

constexpr int LANES = 16;
constexpr int kParts = LANES / kWidth;  // registers of a vector

struct Floats {
  FloatRegister parts[kParts];

  Floats& operator+=(const Floats& other) {
    for (int p = 0; p < kParts; p++) parts[p] += other.parts[p];
    return *this;
  }
};
inline FloatRegister& part(Floats& v, int p) { return v.parts[p]; }
inline const FloatRegister& part(const Floats& v, int p) { return v.parts[p]; }

#define SPECDEC_LANE_BY_LANE(op)                                          \
  inline Floats operator op(const Floats& a, const Floats& b) {           \
    Floats c;                                                             \
    for (int p = 0; p < kParts; p++) c.parts[p] = a.parts[p] op b.parts[p]; \
    return c;                                                             \
  }                                                                       \
  inline Floats operator op(const Floats& a, float b) {                   \
    Floats c;                                                             \
    for (int p = 0; p < kParts; p++) c.parts[p] = a.parts[p] op b;        \
    return c;                                                             \
  }                                                                       \
  inline Floats operator op(float a, const Floats& b) {                   \
    Floats c;                                                             \
    for (int p = 0; p < kParts; p++) c.parts[p] = a op b.parts[p];        \
    return c;                                                             \
  }
SPECDEC_LANE_BY_LANE(+)
SPECDEC_LANE_BY_LANE(-)
SPECDEC_LANE_BY_LANE(*)
SPECDEC_LANE_BY_LANE(/)
#undef SPECDEC_LANE_BY_LANE

inline Floats load(const float* from) {
  Floats v;
  for (int p = 0; p < kParts; p++) part(v, p) = load_floats(from + p * kWidth);
  return v;
}
inline void store(float* to, const Floats& v) {
  for (int p = 0; p < kParts; p++) store_floats(to + p * kWidth, part(v, p));
}
// The first `count` lanes alone, fewer than all.
inline void store_some(float* to, const Floats& v, int count) {
  float lanes[LANES];
  store(lanes, v);
  for (int i = 0; i < LANES; i++)
    if (i < count) to[i] = lanes[i];
}
inline Floats splat(float value) {
  Floats v;
  for (int p = 0; p < kParts; p++) part(v, p) = value - FloatRegister{};
  return v;
}
inline Floats negative(const Floats& a) {
  Floats v;
  for (int p = 0; p < kParts; p++) part(v, p) = -part(a, p);
  return v;
}
// The larger one of each lane; b where one is NaN.
inline Floats larger(const Floats& a, const Floats& b) {
  Floats v;
  for (int p = 0; p < kParts; p++) part(v, p) = larger_of(part(a, p), part(b, p));
  return v;
}
// Lanes of `yes` where x < limit, else of `no`.
inline Floats where_less(const Floats& x, float limit, const Floats& yes, const Floats& no) {
  Floats v;
  for (int p = 0; p < kParts; p++) part(v, p) = part(x, p) < limit ? part(yes, p) : part(no, p);
  return v;
}
inline bool has_from(const Floats& v, float least) {
  bool found = false;
  for (int p = 0; p < kParts; p++) found |= any_from(part(v, p), least);
  return found;
}

// By halves: four operations wait for each other, not sixteen.
inline float sum(Floats v) {
  for (int n = kParts / 2; n > 0; n /= 2)
    for (int p = 0; p < n; p++) part(v, p) += part(v, p + n);
  return sum_of(part(v, 0));
}
inline float largest(Floats v) {
  for (int n = kParts / 2; n > 0; n /= 2)
    for (int p = 0; p < n; p++) part(v, p) = larger_of(part(v, p + n), part(v, p));
  return largest_of(part(v, 0));
}

// 2^n of whole numbers n from -126 to 127, given as n + rounder, in whose lowest bits they stand.
inline Floats power_of_two(const Floats& shifted, float rounder) {
  const IntRegister zero = reinterpret_cast<IntRegister>(rounder - FloatRegister{});
  Floats v;
  for (int p = 0; p < kParts; p++) {
    const IntRegister exponent = reinterpret_cast<IntRegister>(part(shifted, p)) - zero + 127;
    part(v, p) = reinterpret_cast<FloatRegister>(exponent << 23);
  }
  return v;
}

// e^x for x <= 88 to within 2 units in the last place: 2^n times a polynomial in the rest (Cephes'
// expf). Below -87 it is e^-87; of NaN it is NaN.
__attribute__((always_inline)) inline Floats exponential(Floats x) {
  x = where_less(x, -87.0f, splat(-87.0f), x);
  constexpr float kRounder = 12582912.0f;  // 1.5 x 2^23: adding it rounds to a whole number
  Floats n = x * 1.44269504088896341f + kRounder;
  const Floats power = power_of_two(n, kRounder);
  n = n - kRounder;
  Floats rest = x - n * 0.693359375f;
  rest = rest - n * -2.12194440e-4f;
  Floats p = splat(1.9875691500e-4f);
  p = p * rest + 1.3981999507e-3f;
  p = p * rest + 8.3334519073e-3f;
  p = p * rest + 4.1665795894e-2f;
  p = p * rest + 1.6666665459e-1f;
  p = p * rest + 5.0000001201e-1f;
  p = p * rest * rest + rest + 1.0f;
  return p * power;
}

inline Floats hyperbolic_tangent(Floats x) {
  const Floats less = where_less(x, 0.0f, x, negative(x));  // minus the size
  const Floats decay = exponential(2.0f * where_less(less, -9.0f, splat(-9.0f), less));
  const Floats t = (1.0f - decay) / (1.0f + decay);
  return where_less(x, 0.0f, negative(t), t);
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
  typedef uint16_t Halves __attribute__((vector_size(2 * kWidth), aligned(2), may_alias));
  typedef uint32_t Words __attribute__((vector_size(4 * kWidth)));
  Floats v;
  for (int p = 0; p < kParts; p++) {
    const Halves halves = *reinterpret_cast<const Halves*>(from + p * kWidth);
    part(v, p) = reinterpret_cast<FloatRegister>(__builtin_convertvector(halves, Words) << 16);
  }
  return v;
}

inline int rounded_up(int count, int step) { return (count + step - 1) / step * step; }

}  // namespace specdec
