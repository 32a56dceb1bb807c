// Layer normalisation (Ba et al. 2016).
#pragma once

#include <cmath>

#include "memory.h"
#include "simd.h"

namespace specdec {

struct Norm {
  Buffer<float> weight, bias;  // both empty: no affine map
  float epsilon = 1e-5f;
  int width = 0;  // 0: there is no norm
};

inline float sum_of(const float* x, int width) {
  Floats lanes{};
  int c = 0;
  for (; c + LANES <= width; c += LANES) lanes += load(x + c);
  float total = sum(lanes);
  for (; c < width; c++) total += x[c];
  return total;
}

inline float squared_distance(const float* x, int width, float mean) {
  Floats lanes{};
  int c = 0;
  for (; c + LANES <= width; c += LANES) {
    const Floats d = load(x + c) - mean;
    lanes += d * d;
  }
  float total = sum(lanes);
  for (; c < width; c++) total += (x[c] - mean) * (x[c] - mean);
  return total;
}

// y[rows][width] from x; they may be the same.
inline void normalise(const Norm& norm, int rows, int width, const float* x, float* y) {
  const float* weight = norm.weight.data();
  const float* bias = norm.bias.data();
  for (int r = 0; r < rows; r++, x += width, y += width) {
    const float mean = sum_of(x, width) / static_cast<float>(width);
    const float variance = squared_distance(x, width, mean) / static_cast<float>(width);
    const float scale = 1.0f / std::sqrt(variance + norm.epsilon);
    int c = 0;
    if (weight == nullptr) {
      for (; c + LANES <= width; c += LANES) store(y + c, (load(x + c) - mean) * scale);
      for (; c < width; c++) y[c] = (x[c] - mean) * scale;
      continue;
    }
    for (; c + LANES <= width; c += LANES)
      store(y + c, (load(x + c) - mean) * scale * load(weight + c) + load(bias + c));
    for (; c < width; c++) y[c] = (x[c] - mean) * scale * weight[c] + bias[c];
  }
}

}  // namespace specdec
