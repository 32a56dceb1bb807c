// The activation functions between fc1 and fc2, by the names that fairseq gives them.
//
// A number's result has the same bits wherever it stands in a block.
#pragma once

#include <cmath>
#include <cstddef>

#include "simd.h"

namespace specdec {

// As the ABI numbers them (stack.py).
enum class Activation { kRelu, kGelu, kGeluTanh, kTanh, kSilu, kReluSquared, kLinear, kCount };

// Negative numbers become 0 in the product itself.
inline bool begins_with_relu(Activation activation) {
  return activation == Activation::kRelu || activation == Activation::kReluSquared;
}

inline Floats silu(Floats x) {
  x = where_less(x, -87.0f, splat(-87.0f), x);  // as exponential does; there it is 0 but for 1e-36
  const Floats decay = exponential(where_less(x, 0.0f, x, negative(x)));  // of minus the size
  return x * where_less(x, 0.0f, decay, splat(1.0f)) / (1.0f + decay);
}

template <typename Function>
inline void replace_each(size_t count, float* x, const Function& function) {
  for (size_t i = 0; i < count; i += LANES) store(x + i, function(load(x + i)));
}

// In place; x has room for `count` numbers, rounded up to whole vectors.
inline void activate(Activation activation, size_t count, float* x) {
  constexpr float kRootOfHalf = 0.70710678118654752f, kRootOfTwoOverPi = 0.79788456080286536f;
  switch (activation) {
    case Activation::kGelu:
      for (size_t i = 0; i < count; i++) x[i] *= 0.5f * (1.0f + std::erf(x[i] * kRootOfHalf));
      return;
    case Activation::kGeluTanh:
      for (size_t i = 0; i < count; i++) {
        const float inside = kRootOfTwoOverPi * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
        x[i] = 0.5f * x[i] * (1.0f + std::tanh(inside));
      }
      return;
    case Activation::kTanh:
      return replace_each(count, x, [](const Floats& v) { return hyperbolic_tangent(v); });
    case Activation::kSilu:
      return replace_each(count, x, [](const Floats& v) { return silu(v); });
    case Activation::kReluSquared:
      return replace_each(count, x, [](const Floats& v) { return v * v; });
    default:  // kLinear, and kRelu, which the product applies
      return;
  }
}

}  // namespace specdec
