// Scaled dot-product attention (Vaswani et al. 2017, equation 1) of a few queries over cached keys.
//
// The keys of a head lie in groups of 16 slots, so that one vector holds one dimension of 16 keys;
// the values lie slot by slot. What a query does not see gets the weight 0. So a result has the
// same bits however many more slots there are and whatever else is computed beside it.
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
  KeyValues(int heads, int head_width)
      : heads_(heads), width_(head_width), padded_(rounded_up(head_width, LANES)) {}

  // Room for `rows` of at least `least` slots each, and of up to `most` where the memory that is
  // there holds them; what was in it is lost. So a batch of many rows and one of many slots take
  // turns in the memory of the larger one. (Padding stays 0, since it lies at the same places for
  // any number of rows and slots.)
  void make_room(int rows, int least, int most) {
    const size_t slot = static_cast<size_t>(rows) * heads_ * padded_;
    const size_t held = std::min(keys_.size() / slot, static_cast<size_t>(most));
    capacity_ = std::max(rounded_up(least, LANES), static_cast<int>(held / LANES * LANES));
    keys_.reserve(slot * capacity_);
    values_.reserve(slot * capacity_);
  }

  int capacity() const { return capacity_; }
  int padded() const { return padded_; }
  int heads() const { return heads_; }
  int width() const { return width_; }
  // How far the keys of the next head lie away; likewise the values.
  ptrdiff_t apart() const { return static_cast<ptrdiff_t>(capacity_) * padded_; }
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
struct Visibility {
  const int* upto;                   // per query: it sees slots 0 .. upto - 1
  const uint8_t* allowed = nullptr;  // [queries][stride]: of those only the ones marked; or null
  size_t stride = 0;
  // [queries][stride]: instead of slots 0 .. upto - 1 it sees these, in this order; or null
  const int* path = nullptr;

  // Of the queries from `first` on.
  Visibility from(int first) const {
    Visibility later = *this;
    later.upto += first;
    if (allowed != nullptr) later.allowed += first * stride;
    if (path != nullptr) later.path += first * stride;
    return later;
  }
};

#ifdef __AVX512F__
constexpr int kQueries = 12;  // computed at once: two accumulators each fill 24 of 32 registers
constexpr int kMixed = 6;     // rows of weights times four vectors of values: 24 registers
#else
constexpr int kQueries = 3;
constexpr int kMixed = 1;
#endif
constexpr int kDims = 64;  // a run of a query's dimensions: queries lie [runs][queries][kDims]

// scores[M][stride] of M queries over G groups of 16 keys at once; `next`: how far away the keys lie
// that are used after these.
template <int M, int G>
inline void score_groups(const float* queries, const float* keys, ptrdiff_t next, int padded,
                         float* scores, size_t stride) {
  const ptrdiff_t group = static_cast<ptrdiff_t>(padded) * LANES;
  Floats even[M][G], odd[M][G];
  for (int i = 0; i < M; i++)
    for (int g = 0; g < G; g++) even[i][g] = odd[i][g] = Floats{};
  for (int left = padded; left > 0; left -= kDims, queries += M * kDims) {
    const int run = left < kDims ? left : kDims;
    for (int d = 0; d < run; d += 2, keys += 2 * LANES) {
#pragma GCC unroll 4
      for (int g = 0; g < G; g++) {
        const float* at = keys + g * group;
        const Floats k0 = load(at), k1 = load(at + LANES);
        __builtin_prefetch(at + next);
        __builtin_prefetch(at + next + LANES);
#pragma GCC unroll 12
        for (int i = 0; i < M; i++) {
          even[i][g] += splat(queries[i * kDims + d]) * k0;
          odd[i][g] += splat(queries[i * kDims + d + 1]) * k1;
        }
      }
    }
  }
  for (int i = 0; i < M; i++)
    for (int g = 0; g < G; g++) store(scores + i * stride + g * LANES, even[i][g] + odd[i][g]);
}

// All groups. Few queries take several at once: their sums wait for each other else.
template <int M>
inline void score_queries(const float* queries, const float* keys, ptrdiff_t next, int groups,
                          int padded, float* scores, size_t stride) {
  constexpr int kSums = 8 / kParts;  // registers that keep the multipliers busy
  constexpr int G = M >= kSums / 2 ? 1 : kSums / 2 / M;
  int g = 0;
  for (; g + G <= groups; g += G)
    score_groups<M, G>(queries, keys + static_cast<ptrdiff_t>(g) * padded * LANES, next, padded,
                       scores + g * LANES, stride);
  for (; g < groups; g++)
    score_groups<M, 1>(queries, keys + static_cast<ptrdiff_t>(g) * padded * LANES, next, padded,
                       scores + g * LANES, stride);
}

// Weights of slots and the values that they mix.
struct Mixture {
  const float* weights;  // [M][stride]
  size_t stride;
  const float* values;  // [slots][padded]
  ptrdiff_t apart;      // how far away the next row of weights has its values
  ptrdiff_t next;       // how far away the values lie that are used after these
  int padded, slots;
  const int* path;  // in this order; or null, in their own
};

// out[M][out_stride], 16 N columns of the values from `column` on. kShared: all rows of weights mix
// the same values.
template <int M, int N, bool kShared>
inline void mix_values(const Mixture& mixture, int column, float* out, size_t out_stride,
                       int wanted) {
  Floats mixed[M][N];
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) mixed[i][j] = Floats{};
  for (int t = 0; t < mixture.slots; t++) {
    const int slot = mixture.path != nullptr ? mixture.path[t] : t;
    const float* values = mixture.values + static_cast<size_t>(slot) * mixture.padded + column;
    Floats v[N];
#pragma GCC unroll 6
    for (int i = 0; i < M; i++) {
#pragma GCC unroll 4
      for (int j = 0; j < N; j++) {
        if (i > 0 && kShared) continue;
        v[j] = load(values + j * LANES);
        __builtin_prefetch(values + mixture.next + j * LANES);
      }
      const Floats w = splat(mixture.weights[i * mixture.stride + t]);
#pragma GCC unroll 4
      for (int j = 0; j < N; j++) mixed[i][j] += w * v[j];
      if (!kShared) values += mixture.apart;
    }
  }
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float* to = out + i * out_stride + j * LANES;
      const int left = wanted - j * LANES;
      if (left >= LANES)
        store(to, mixed[i][j]);
      else if (left > 0)
        store_some(to, mixed[i][j], left);
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

constexpr float kHiddenScore = -1e30f, kLeastScore = -9e29f;

// Softmax of a row of scores whose unseen entries are below kLeastScore.
inline void softmax(float* scores, int groups) {
  Floats tops = load(scores);
  for (int g = 1; g < groups; g++) tops = larger(tops, load(scores + g * LANES));
  const float top = largest(tops);
  Floats total{};
  for (int g = 0; g < groups; g++) {
    const Floats score = load(scores + g * LANES);
    const Floats raised = exponential(score - top);
    const Floats weight = where_less(score, kLeastScore, Floats{}, raised);
    total += weight;
    store(scores + g * LANES, weight);
  }
  const float scale = 1.0f / sum(total);
  for (int g = 0; g < groups; g++) store(scores + g * LANES, load(scores + g * LANES) * scale);
}

template <int M, bool kShared>
inline void mix(const Mixture& mixture, float* out, size_t out_stride, int width) {
  for (int c = 0; c < width; c += 4 * LANES)
    with_count<4>((std::min(width - c, 4 * LANES) + LANES - 1) / LANES, [&](auto n) {
      mix_values<M, n.value, kShared>(mixture, c, out + c, out_stride, width - c);
    });
}

// Queries of a head, scaled and padded, as score_queries reads them.
inline void arrange(int count, const float* queries, size_t stride, int width, int padded,
                    float* to) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(width));
  for (int d = 0; d < padded; d += LANES)
    for (int i = 0; i < count; i++) {
      float* at = to + (d / kDims * count + i) * kDims + d % kDims;
      const float* from = queries + i * stride + d;
      if (d + LANES <= width)
        store(at, load(from) * scale);
      else
        for (int c = 0; c < LANES; c++) at[c] = d + c < width ? from[c] * scale : 0.0f;
    }
}

// Slots of the cache that queries look at.
inline int slots_seen(int count, const Visibility& visible) {
  if (visible.path == nullptr)
    return std::max(1, *std::max_element(visible.upto, visible.upto + count));
  int last = 0;
  for (int i = 0; i < count; i++)
    for (int t = 0; t < visible.upto[i]; t++)
      last = std::max(last, visible.path[i * visible.stride + t]);
  return last + 1;
}

// Weights of what query number `i` sees, from its scores; in the order of its path, if it has one.
inline void masked_softmax(const Visibility& visible, int i, int groups, const float* scores,
                           float* weights) {
  const int upto = visible.upto[i];
  if (visible.path != nullptr) {
    const int* path = visible.path + i * visible.stride;
    for (int t = 0; t < upto; t++) weights[t] = scores[path[t]];
    groups = (upto + LANES - 1) / LANES;
  }
  std::fill(weights + upto, weights + groups * LANES, kHiddenScore);
  if (visible.allowed != nullptr) {
    const uint8_t* allowed = visible.allowed + i * visible.stride;
    for (int t = 0; t < upto; t++) weights[t] = allowed[t] ? weights[t] : kHiddenScore;
  }
  softmax(weights, groups);
}

// Room for one round of attention: scores of several heads' queries.
struct Round {
  int some, now;   // queries, heads
  float* scores;   // [heads][queries][stride]
  float* ordered;  // [heads][stride]
  size_t stride;
};

// out: [queries][out_stride] of the round's first head. `mixture` holds that head's values.
inline void mix_round(const Round& round, const Visibility& visible, Mixture mixture, int width,
                      float* out, size_t out_stride) {
  const int some = round.some, now = round.now, groups = static_cast<int>(round.stride / LANES);
  mixture.stride = round.stride;
  if (visible.path != nullptr) {
    mixture.weights = round.ordered;
    for (int i = 0; i < some; i++) {
      for (int h = 0; h < now; h++)
        masked_softmax(visible, i, groups, round.scores + (h * some + i) * round.stride,
                       round.ordered + h * round.stride);
      mixture.slots = visible.upto[i];
      mixture.path = visible.path + i * visible.stride;
      with_count<kMixed>(
          now, [&](auto m) { mix<m.value, false>(mixture, out + i * out_stride, width, width); });
    }
    return;
  }
  for (int i = 0; i < now * some; i++) {
    float* weights = round.scores + i * round.stride;
    masked_softmax(visible, i % some, groups, weights, weights);
  }
  mixture.weights = round.scores;
  if (some == 1)
    return with_count<kMixed>(now,
                              [&](auto m) { mix<m.value, false>(mixture, out, width, width); });
  for (int h = 0; h < now; h++, mixture.values += mixture.apart)
    for (int i = 0; i < some; i += kMixed) {
      mixture.weights = round.scores + (h * some + i) * round.stride;
      with_count<kMixed>(std::min(kMixed, some - i), [&](auto m) {
        mix<m.value, true>(mixture, out + i * out_stride + h * width, out_stride, width);
      });
    }
}

// The queries of one row, and where their results go.
struct Queries {
  int count;
  const float* from;  // [count][stride], of which the heads' numbers are read
  size_t stride;
  float* out;  // [count][heads x head width]
};

// Attention of the queries of one row. Where a head has few of them, several heads go through each
// stage together: their sums do not wait for each other. `next`: the row of the cache that is looked
// at afterwards, fetched meanwhile.
inline void attend(const Queries& queries, const KeyValues& cache, int row, int next,
                   const Visibility& whole, Buffer<float>& scratch) {
  const int count = queries.count, width = cache.width(), padded = cache.padded();
  if (count == 0) return;  // a row of padding alone
  const size_t out_stride = static_cast<size_t>(cache.heads()) * width;
  const int groups = (slots_seen(count, whole) + LANES - 1) / LANES;
  const size_t stride = static_cast<size_t>(groups) * LANES;
  const ptrdiff_t away = cache.keys(next, 0) - cache.keys(row, 0);
  const bool paths = whole.path != nullptr;
  const size_t rows = paths ? kQueries * kMixed : std::max(kQueries, kMixed);  // of scores
  float* scores = scratch.reserve((rows + kMixed) * stride + kQueries * rounded_up(padded, kDims));
  float* ordered = scores + rows * stride;
  float* arranged = ordered + kMixed * stride;
  for (int first = 0; first < count; first += kQueries) {
    const int some = std::min(kQueries, count - first);
    const Visibility visible = whole.from(first);
    const int together = paths ? kMixed : std::max(1, kMixed / some);
    for (int head = 0; head < cache.heads(); head += together) {
      const Round round{some, std::min(together, cache.heads() - head), scores, ordered, stride};
      for (int h = 0; h < round.now; h++) {
        arrange(some, queries.from + first * queries.stride + (head + h) * width, queries.stride,
                width, padded, arranged);
        with_count<kQueries>(some, [&](auto m) {
          score_queries<m.value>(arranged, cache.keys(row, head + h), away, groups, padded,
                                 scores + h * some * stride, stride);
        });
      }
      Mixture mixture{};
      mixture.values = cache.values(row, head);
      mixture.apart = cache.apart();
      mixture.next = away;
      mixture.padded = padded;
      mixture.slots = paths ? 0 : slots_seen(some, visible);
      mix_round(round, visible, mixture, width, queries.out + first * out_stride + head * width,
                out_stride);
    }
  }
}

}  // namespace specdec
