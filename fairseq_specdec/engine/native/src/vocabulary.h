// What is read of a row of logits.
#pragma once

#include <cmath>
#include <limits>

#include "simd.h"

namespace specdec {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Peak {
  int at = -1;  // index of the first largest one; -1 where there is none (NaN, or all -inf)
  float top = kMinusInfinity;
  bool tied = false;  // another one is as large
};

inline Peak peak_of(const float* logits, int count) {
  Floats tops = splat(kMinusInfinity);
  int i = 0;
  for (; i + LANES <= count; i += LANES) tops = larger(load(logits + i), tops);
  Peak peak;
  peak.top = largest(tops);
  for (; i < count; i++) peak.top = logits[i] > peak.top ? logits[i] : peak.top;
  if (!(peak.top > kMinusInfinity)) return peak;
  int ties = 0;
  const auto look = [&](int from, int to) {
    for (int j = from; j < to; j++) {
      if (logits[j] != peak.top) continue;
      if (ties++ == 0) peak.at = j;
    }
  };
  for (i = 0; i + 4 * LANES <= count; i += 4 * LANES) {
    const Floats here = larger(larger(load(logits + i), load(logits + i + LANES)),
                               larger(load(logits + i + 2 * LANES), load(logits + i + 3 * LANES)));
    if (has_from(here, peak.top)) look(i, i + 4 * LANES);
  }
  look(i, count);
  peak.tied = ties > 1;
  return peak;
}

// log of the sum of e^(logit - top); NaN where one is NaN or infinite.
inline float log_sum(const float* logits, int count, float top) {
  Floats lanes{};
  int i = 0;
  for (; i + LANES <= count; i += LANES) lanes += exponential(load(logits + i) - top);
  double total = sum(lanes);
  for (; i < count; i++) total += std::exp(logits[i] - top);
  return static_cast<float>(std::log(total));
}

}  // namespace specdec
