// What is read of a row of logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

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

inline int reached(const float* values, int size, float bound) {
  int count = 0;
  for (int i = 0; i < size; i++) count += values[i] >= bound;
  return count;
}

// A bound that `count` values or a few more reach; that all numbers do, where there are fewer. By
// halving, whose steps are counts without branches: to sort 220 values took six times as long.
inline float bound_of_best(const float* values, int size, int count) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  constexpr int kHalvings = 20;
  if (reached(values, size, kLowest) <= count) return kLowest;
  float high = std::min(peak_of(values, size).top, -kLowest), low = high;
  for (float step = 1; low > kLowest && reached(values, size, low) < count; step *= 2)
    low = std::max(high - step, kLowest);
  for (int i = 0; i < kHalvings; i++) {
    const float middle = low + (high - low) / 2;
    const int above = reached(values, size, middle);
    (above < count ? high : low) = middle;
    if (above == count) break;
  }
  return low;
}

// Whether `a` ranks before `b`: the first of equal ones does.
inline bool comes_first(const float* logits, int a, int b) {
  return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
}

// Indices of the `count` logits that rank first, in no order: only groups whose largest may be among
// them are looked at one by one. NaN and -inf are left out.
inline void best_few(const float* logits, int words, int count, std::vector<int>& best) {
  constexpr int kGroup = 2 * LANES;
  const int groups = words / kGroup;
  int size = 0;
  best.resize(words);
  const auto look = [&](int from, int to, float least) {
    for (int i = from; i < to; i++) {
      best[size] = i;
      size += logits[i] >= least;
    }
  };
  if (groups <= count) {
    look(0, words, bound_of_best(logits, words, count));
  } else {
    static thread_local std::vector<float> tops;
    tops.resize(groups);
    for (int g = 0; g < groups; g++) {
      const float* from = logits + g * kGroup;
      tops[g] = largest(larger(load(from), load(from + LANES)));
    }
    const float least = bound_of_best(tops.data(), groups, count);
    for (int g = 0; g < groups; g++)
      if (tops[g] >= least) look(g * kGroup, (g + 1) * kGroup, least);
    look(groups * kGroup, words, least);
  }
  best.resize(size);
  if (size > count) {
    std::nth_element(best.begin(), best.begin() + count, best.end(),
                     [&](int a, int b) { return comes_first(logits, a, b); });
    best.resize(count);
  }
}

}  // namespace specdec
