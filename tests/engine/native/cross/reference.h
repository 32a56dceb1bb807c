// Products in plain loops, one number after the other: what the kernels are held against.
//
// Written from the contract in product.h and sharing no code with it: results have the same bits,
// but for bfloat16 numbers that are subnormal. Formats and what becomes of a result are numbered as
// there.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace reference {

constexpr int kBfloat16 = 1, kInt8 = 2, kInt7 = 4;
constexpr int kRelu = 1, kAdd = 2;

inline float to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint32_t odd = bits >> 16 & 1;
  bits = std::isnan(value) ? bits | 0x400000 : bits + 0x7fff + odd;
  bits &= 0xffff0000;
  std::memcpy(&value, &bits, 4);
  return value;
}

// A row in a format's numbers, of which each stands for `scale` times itself. most: of bytes, the
// whole number that the largest one becomes.
struct Row {
  Row(int format, const float* from, int count, float most) : numbers(from, from + count) {
    float largest = 0.0f;
    for (float& number : numbers) {
      if (format == kBfloat16) number = to_bfloat16(number);
      largest = std::max(largest, std::isfinite(number) ? std::fabs(number) : HUGE_VALF);
    }
    if (format != kInt8 && format != kInt7) return;
    const bool zeros = largest < std::ldexp(1.0f, -100);
    scale = std::isinf(largest) ? std::nanf("") : zeros ? 0.0f : largest / most;
    const double inverse = 1.0f / scale;  // with 24 bits, as any x: their product is exact
    for (float& number : numbers)
      number = scale > 0 ? static_cast<float>(std::nearbyint(number * inverse)) : 0.0f;
  }

  std::vector<float> numbers;
  float scale = 1.0f;
};

inline float dot(const Row& x, const Row& w, float bias, int format) {
  const int count = static_cast<int>(x.numbers.size());
  if (format == kInt8 || format == kInt7) {
    int64_t total = 0;
    for (int k = 0; k < count; k++) total += static_cast<int>(x.numbers[k] * w.numbers[k]);
    return std::fma(static_cast<float>(total), w.scale * x.scale, bias);
  }
  float sum = bias;
  const int group = format == kBfloat16 ? 2 : 1;
  for (int k = 0; k < count; k += group) {
    for (int j = std::min(k + group, count) - 1; j >= k; j--) {
      sum = std::fma(x.numbers[j], w.numbers[j], sum);
    }
  }
  return sum;
}

// specdec::multiply of the matrix (weight [out][in], bias [out] or null).
inline void multiply(int out, int in, const float* weight, const float* bias, int format, int rows,
                     const float* x, int x_stride, float* y, int y_stride, int after) {
  std::vector<Row> outputs;
  for (int j = 0; j < out; j++) {
    outputs.emplace_back(format, weight + static_cast<size_t>(j) * in, in,
                         format == kInt7 ? 63.0f : 127.0f);
  }
  for (int i = 0; i < rows; i++) {
    const Row row(format, x + static_cast<size_t>(i) * x_stride, in, 127.0f);
    for (int j = 0; j < out; j++) {
      const float value = dot(row, outputs[j], bias ? bias[j] : 0, format);
      float& result = y[static_cast<size_t>(i) * y_stride + j];
      if (after == kAdd) {
        result += value;
      } else {
        result = after == kRelu && value < 0 ? 0 : value;
      }
    }
  }
}

}  // namespace reference
