// Scaled dot-product attention (Vaswani et al. 2017, equation 1) of a few queries over cached keys.
//
// The keys of a head lie in groups of 16 slots, so that one vector holds one dimension of 16 keys;
// the values lie slot by slot. What a query does not see gets the weight 0. So a result has the same
// bits however many more slots there are and whatever else is computed beside it.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "memory.h"
#include "simd.h"

namespace specdec {

// Keys and values of one layer: rows x heads x capacity slots.
class KeyValues {
 public:
  KeyValues() = default;
  KeyValues(int rows, int heads, int capacity, int head_width)
      : heads_(heads),
        width_(head_width),
        padded_(rounded_up(head_width, LANES)),
        capacity_(rounded_up(capacity, LANES)),
        keys_(static_cast<size_t>(rows) * heads * capacity_ * padded_),
        values_(static_cast<size_t>(rows) * heads * capacity_ * padded_) {}

  int capacity() const { return capacity_; }
  int padded() const { return padded_; }
  const float* keys(int row, int head) const { return keys_.data() + at(row, head); }
  const float* values(int row, int head) const { return values_.data() + at(row, head); }

  // key, value: [heads][head_width], one token's.
  void put(int row, int slot, const float* key, const float* value) {
    for (int head = 0; head < heads_; head++, key += width_, value += width_) {
      float* to = keys_.data() + at(row, head) +
                  static_cast<size_t>(slot / LANES) * padded_ * LANES + slot % LANES;
      for (int d = 0; d < width_; d++) to[d * LANES] = key[d];
      std::copy_n(value, width_,
                  values_.data() + at(row, head) + static_cast<size_t>(slot) * padded_);
    }
  }

  // The first `slots` slots of every row of another one, which is smaller.
  void copy_from(const KeyValues& other, int rows, int slots) {
    const size_t count = static_cast<size_t>(rounded_up(slots, LANES)) * padded_;
    for (int row = 0; row < rows; row++)
      for (int head = 0; head < heads_; head++) {
        std::copy_n(other.keys(row, head), count, keys_.data() + at(row, head));
        std::copy_n(other.values(row, head), count, values_.data() + at(row, head));
      }
  }

 private:
  size_t at(int row, int head) const {
    return (static_cast<size_t>(row) * heads_ + head) * capacity_ * padded_;
  }
  int heads_ = 0, width_ = 0, padded_ = 0, capacity_ = 0;
  Buffer<float> keys_, values_;
};

// What queries see of the slots of their row.
struct Sight {
  const int* upto;                   // per query: it sees slots 0 .. upto - 1
  const uint8_t* allowed = nullptr;  // [queries][stride]: of those only the ones marked; or null
  size_t stride = 0;
  const uint8_t* hidden = nullptr;  // per slot: nobody sees the ones marked; or null
  // [queries][stride]: instead of slots 0 .. upto - 1 it sees these, in this order; or null
  const int* path = nullptr;
};

#ifdef __AVX512F__
constexpr int kQueries = 12;  // computed at once: two accumulators each fill 24 of 32 registers
constexpr int kMixed = 6;     // queries times four vectors of values: 24 registers
#else
constexpr int kQueries = 3;
constexpr int kMixed = 1;
#endif

// scores[M][stride] of M queries [padded][M] over groups of 16 keys.
template <int M>
inline void score_queries(const float* queries, const float* keys, int groups, int padded,
                          float* scores, size_t stride) {
  for (int g = 0; g < groups; g++) {
    Floats even[M], odd[M];
    for (int i = 0; i < M; i++) even[i] = odd[i] = Floats{};
    const float* q = queries;
    for (int d = 0; d < padded; d += 2, keys += 2 * LANES, q += 2 * M) {
      const Floats k0 = load(keys), k1 = load(keys + LANES);
#pragma GCC unroll 12
      for (int i = 0; i < M; i++) {
        even[i] += splat(q[i]) * k0;
        odd[i] += splat(q[M + i]) * k1;
      }
    }
    for (int i = 0; i < M; i++) store(scores + i * stride + g * LANES, even[i] + odd[i]);
  }
}

// out[M][out_stride], 16 N columns of the values mixed by M rows of weights.
template <int M, int N>
inline void mix_values(const float* weights, size_t stride, const float* values, int padded,
                       int slots, float* out, size_t out_stride, int wanted) {
  Floats mixed[M][N];
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) mixed[i][j] = Floats{};
  for (int t = 0; t < slots; t++, values += padded) {
    Floats v[N];
    for (int j = 0; j < N; j++) v[j] = load(values + j * LANES);
#pragma GCC unroll 6
    for (int i = 0; i < M; i++) {
      const Floats w = splat(weights[i * stride + t]);
#pragma GCC unroll 4
      for (int j = 0; j < N; j++) mixed[i][j] += w * v[j];
    }
  }
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float* to = out + i * out_stride + j * LANES;
      const int left = wanted - j * LANES;
      if (left >= LANES)
        store(to, mixed[i][j]);
      else
        for (int c = 0; c < left; c++) to[c] = mixed[i][j][c];
    }
}

template <int M>
inline void mix_columns(const float* weights, size_t stride, const float* values, int padded,
                        int slots, float* out, size_t out_stride, int width) {
  for (int c = 0; c < width; c += 4 * LANES) {
    const float* from = values + c;
    float* to = out + c;
    switch ((std::min(width - c, 4 * LANES) + LANES - 1) / LANES) {
      case 1: mix_values<M, 1>(weights, stride, from, padded, slots, to, out_stride, width - c); break;
      case 2: mix_values<M, 2>(weights, stride, from, padded, slots, to, out_stride, width - c); break;
      case 3: mix_values<M, 3>(weights, stride, from, padded, slots, to, out_stride, width - c); break;
      default: mix_values<M, 4>(weights, stride, from, padded, slots, to, out_stride, width - c);
    }
  }
}

// Calls one of the instances 1 .. Most of a template by a number known at run time.
template <int Most, typename Call>
inline void with_count(int count, const Call& call) {
  if constexpr (Most > 1) {
    if (count < Most) return with_count<Most - 1>(count, call);
  }
  call(std::integral_constant<int, Most>{});
}

constexpr float kHiddenScore = -1e30f;

// Softmax of a row of scores whose unseen entries are kHiddenScore or less.
inline void soften(float* scores, int groups) {
  Floats most = load(scores);
  for (int g = 1; g < groups; g++) most = larger(most, load(scores + g * LANES));
  const float top = largest(most);
  Floats total{};
  for (int g = 0; g < groups; g++) {
    const Floats score = load(scores + g * LANES);
    const Floats raised = exponential(score - top);
    const Floats weight = score <= kHiddenScore ? Floats{} : raised;
    total += weight;
    store(scores + g * LANES, weight);
  }
  const float scale = 1.0f / sum(total);
  for (int g = 0; g < groups; g++) store(scores + g * LANES, load(scores + g * LANES) * scale);
}

// Values mixed in the order of a path: the same bits wherever its slots lie.
inline void mix_path(const float* weights, const int* path, int length, const float* values,
                     int padded, float* out, int width) {
  for (int c = 0; c < width; c += LANES) {
    Floats mixed{};
    for (int t = 0; t < length; t++)
      mixed += splat(weights[t]) * load(values + static_cast<size_t>(path[t]) * padded + c);
    if (width - c >= LANES)
      store(out + c, mixed);
    else
      for (int i = 0; i < width - c; i++) out[c + i] = mixed[i];
  }
}

// Attention of queries of one head of one row.
//   queries: [count][query_stride], of which head_width numbers are read
//   out:     [count][out_stride], of which head_width numbers are written
inline void attend(int count, const float* queries, size_t query_stride, int head_width,
                   const KeyValues& cache, int row, int head, const Sight& sight, float* out,
                   size_t out_stride, Buffer<float>& scratch) {
  int slots = *std::max_element(sight.upto, sight.upto + count);
  if (sight.path != nullptr) {
    slots = 0;
    for (int i = 0; i < count; i++)
      for (int t = 0; t < sight.upto[i]; t++)
        slots = std::max(slots, sight.path[i * sight.stride + t] + 1);
  }
  const int padded = cache.padded(), groups = (slots + LANES - 1) / LANES;
  const size_t stride = static_cast<size_t>(groups) * LANES;
  float* scores = scratch.reserve(kQueries * (stride + padded) + stride);
  float* turned = scores + kQueries * stride;
  float* ordered = turned + kQueries * padded;
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_width));
  for (int first = 0; first < count; first += kQueries) {
    const int some = std::min(kQueries, count - first);
    std::fill_n(turned, static_cast<size_t>(some) * padded, 0.0f);
    for (int i = 0; i < some; i++)
      for (int d = 0; d < head_width; d++)
        turned[d * some + i] = queries[(first + i) * query_stride + d] * scale;
    with_count<kQueries>(some, [&](auto m) {
      score_queries<m.value>(turned, cache.keys(row, head), groups, padded, scores, stride);
    });
    if (sight.path != nullptr) {
      for (int i = 0; i < some; i++) {
        const int length = sight.upto[first + i];
        const int* path = sight.path + (first + i) * sight.stride;
        const int full = (length + LANES - 1) / LANES;
        for (int t = 0; t < length; t++) ordered[t] = scores[i * stride + path[t]];
        std::fill(ordered + length, ordered + full * LANES, kHiddenScore);
        soften(ordered, full);
        mix_path(ordered, path, length, cache.values(row, head), padded,
                 out + (first + i) * out_stride, head_width);
      }
      continue;
    }
    for (int i = 0; i < some; i++) {
      float* mine = scores + i * stride;
      const int upto = sight.upto[first + i];
      std::fill(mine + upto, mine + stride, kHiddenScore);
      if (sight.hidden != nullptr)
        for (int t = 0; t < upto; t++) mine[t] = sight.hidden[t] ? kHiddenScore : mine[t];
      if (sight.allowed != nullptr) {
        const uint8_t* allowed = sight.allowed + (first + i) * sight.stride;
        for (int t = 0; t < upto; t++) mine[t] = allowed[t] ? mine[t] : kHiddenScore;
      }
      soften(mine, groups);
    }
    for (int i = 0; i < some; i += kMixed) {
      const int now = std::min(kMixed, some - i);
      with_count<kMixed>(now, [&](auto m) {
        mix_columns<m.value>(scores + i * stride, stride, cache.values(row, head), padded, slots,
                             out + (first + i) * out_stride, out_stride, head_width);
      });
    }
  }
}

}  // namespace specdec
