// Products in plain loops, one number after the other: what the kernels are held against.
//
// Written from the contract in product.h and sharing no arithmetic with the kernels: results have
// the same bits, but for bfloat16 numbers that are subnormal.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "product.h"

namespace specdec {
namespace reference {

// A row in int8: number i is scale * numbers[i].
struct QuantizedRow {
  std::vector<int> numbers;
  float scale;
};

inline QuantizedRow quantized(const float* row, int count) {
  float largest = 0.0f;
  bool finite = true;
  for (int k = 0; k < count; k++) {
    finite = finite && std::isfinite(row[k]);
    if (std::fabs(row[k]) > largest) largest = std::fabs(row[k]);
  }
  QuantizedRow result = {std::vector<int>(count, 0), 0.0f};
  if (!finite) {
    result.scale = std::numeric_limits<float>::quiet_NaN();
  } else if (largest >= std::ldexp(1.0f, -100)) {
    result.scale = largest / 127.0f;
    const float inverse = 1.0f / result.scale;
    for (int k = 0; k < count; k++) {
      // both factors have 24 bits: the product of doubles is exact
      result.numbers[k] = static_cast<int>(
          std::nearbyint(static_cast<double>(row[k]) * static_cast<double>(inverse)));
    }
  }
  return result;
}

inline float dot(const float* x, const float* w, int count, float bias, Format format) {
  float sum = bias;
  if (format == Format::kFloat32) {
    for (int k = 0; k < count; k++) sum = std::fma(x[k], w[k], sum);
  } else if (format == Format::kBfloat16) {
    for (int k = 0; k < count; k += 2) {
      const int last = k + 1 < count ? k + 1 : k;
      for (int j = last; j >= k; j--) {
        sum = std::fma(from_bf16(to_bf16(x[j])), from_bf16(to_bf16(w[j])), sum);
      }
    }
  } else {
    const QuantizedRow a = quantized(x, count), b = quantized(w, count);
    int64_t total = 0;
    for (int k = 0; k < count; k++) total += a.numbers[k] * b.numbers[k];
    sum = std::fma(static_cast<float>(total), b.scale * a.scale, bias);
  }
  return sum;
}

// multiply() of the matrix (weight [out][in], bias [out] or null).
inline void multiply(int out, int in, const float* weight, const float* bias, Format format,
                     int rows, const float* x, int x_stride, float* y, int y_stride, After after) {
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < out; j++) {
      const float value = dot(x + static_cast<size_t>(i) * x_stride,
                              weight + static_cast<size_t>(j) * in, in, bias ? bias[j] : 0, format);
      float& result = y[static_cast<size_t>(i) * y_stride + j];
      if (after == After::kAdd) {
        result += value;
      } else {
        result = after == After::kRelu && value < 0 ? 0 : value;
      }
    }
  }
}

}  // namespace reference
}  // namespace specdec
