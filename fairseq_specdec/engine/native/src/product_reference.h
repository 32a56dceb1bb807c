// Products in plain loops, one number after the other: what the kernels are held against.
//
// Written from the contract in product.h and sharing no arithmetic with the kernels: results have
// the same bits, but for bfloat16 numbers that are subnormal.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "product.h"

namespace specdec {
namespace reference {

// A row in a format's numbers, of which each stands for `scale` times itself.
struct Row {
  std::vector<float> numbers;
  float scale = 1.0f;
};

// most: the whole number that the largest one becomes.
inline Row row_in_bytes(const float* from, int count, float most) {
  Row row = {std::vector<float>(count), 0.0f};
  float largest = 0.0f;
  for (int k = 0; k < count; k++) {
    largest = std::max(largest, std::fabs(from[k]));
    if (!std::isfinite(from[k])) row.scale = std::numeric_limits<float>::quiet_NaN();
  }
  if (std::isnan(row.scale) || largest < std::ldexp(1.0f, -100)) return row;
  row.scale = largest / most;
  const double inverse = 1.0f / row.scale;  // with 24 bits, as any x: their product is exact
  for (int k = 0; k < count; k++) {
    row.numbers[k] = static_cast<float>(std::nearbyint(from[k] * inverse));
  }
  return row;
}

inline Row row_in(Format format, const float* from, int count) {
  if (in_bytes(format)) return row_in_bytes(from, count, 127.0f);
  Row row = {std::vector<float>(from, from + count), 1.0f};
  if (format == Format::kBfloat16) {
    for (float& number : row.numbers) number = from_bf16(to_bf16(number));
  }
  return row;
}

inline Row weights_in(Format format, const float* from, int count) {
  return format == Format::kInt7 ? row_in_bytes(from, count, 63.0f) : row_in(format, from, count);
}

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
    outputs.push_back(weights_in(format, weight + static_cast<size_t>(j) * in, in));
  }
  for (int i = 0; i < rows; i++) {
    const Row row = row_in(format, x + static_cast<size_t>(i) * x_stride, in);
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
