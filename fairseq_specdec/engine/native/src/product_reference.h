// Products in plain loops, one number after the other: what the kernels are held against.
//
// Written from the contract in product.h and sharing no arithmetic with the kernels: results have
// the same bits, but for bfloat16 numbers that are subnormal.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "product.h"

namespace specdec {
namespace reference {

// A row in a format's numbers, of which each stands for `scale` times itself. most: of bytes, the
// whole number that the largest one becomes.
struct Row {
  Row(Format format, const float* from, int count, float most) : numbers(from, from + count) {
    float largest = 0.0f;
    for (float& number : numbers) {
      if (format == Format::kBfloat16) number = from_bf16(to_bf16(number));
      largest = std::max(largest, std::isfinite(number) ? std::fabs(number) : HUGE_VALF);
    }
    if (!in_bytes(format)) return;
    const bool zeros = largest < std::ldexp(1.0f, -100);
    scale = std::isinf(largest) ? std::nanf("") : zeros ? 0.0f : largest / most;
    const double inverse = 1.0f / scale;  // with 24 bits, as any x: their product is exact
    for (float& number : numbers)
      number = scale > 0 ? static_cast<float>(std::nearbyint(number * inverse)) : 0.0f;
  }

  std::vector<float> numbers;
  float scale = 1.0f;
};

inline float dot(const Row& x, const Row& w, float bias, Format format) {
  const int count = static_cast<int>(x.numbers.size());
  if (in_bytes(format)) {
    int64_t total = 0;
    for (int k = 0; k < count; k++) total += static_cast<int>(x.numbers[k] * w.numbers[k]);
    return std::fma(static_cast<float>(total), w.scale * x.scale, bias);
  }
  float sum = bias;
  const int group = format == Format::kBfloat16 ? 2 : 1;
  for (int k = 0; k < count; k += group) {
    for (int j = std::min(k + group, count) - 1; j >= k; j--) {
      sum = std::fma(x.numbers[j], w.numbers[j], sum);
    }
  }
  return sum;
}

// multiply() of the matrix (weight [out][in], bias [out] or null).
inline void multiply(int out, int in, const float* weight, const float* bias, Format format,
                     int rows, const float* x, int x_stride, float* y, int y_stride, After after) {
  std::vector<Row> outputs;
  for (int j = 0; j < out; j++) {
    outputs.emplace_back(format, weight + static_cast<size_t>(j) * in, in,
                         format == Format::kInt7 ? 63.0f : 127.0f);
  }
  for (int i = 0; i < rows; i++) {
    const Row row(format, x + static_cast<size_t>(i) * x_stride, in, 127.0f);
    for (int j = 0; j < out; j++) {
      const float value = dot(row, outputs[j], bias ? bias[j] : 0, format);
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
