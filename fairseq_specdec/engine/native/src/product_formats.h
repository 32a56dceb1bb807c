// What the number formats do differently in a product: how weights and rows are written in words,
// and what a word adds to the sums of a register's outputs.
//
// Each format has
//   kGroup                     numbers of a row in a word
//   kParts                     instructions that a word takes, each with its own x and weights
//   kInterleaved               whether a word's parts of x are neighbours, or lie in runs of their
//   own measure(x, in)             the row's scale, where it has one pack(x, count, scale, to)
//   `count` numbers as words start, read, read_x, add_product, finish   the tile's inner loop, from
//   bias to result; a part
//                              of packed x is what read<part>() makes of the row's words
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "product.h"
#include "register.h"
#include "simd.h"

namespace specdec {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

struct Float32 {
  typedef FloatRegister Sums;
  typedef FloatRegister Factor;
  static constexpr int kGroup = 1, kParts = 1;
  static constexpr bool kInterleaved = false;

  static float measure(const float*, int) { return 1.0f; }
  static void pack(const float* x, int count, float, uint32_t* to) {
    std::memcpy(to, x, 4 * count);
  }

  static Sums start(const Matrix& matrix, int output) { return load_floats(matrix.bias(output)); }
  template <int>
  static Factor read(const uint32_t* words) {
    return as_floats(load_words(words));
  }
  static Factor read_x(const uint32_t* x) { return splat_float(*x); }
  static Sums add_product(Sums sums, Factor x, Factor w) { return fused(x, w, sums); }
  static FloatRegister finish(Sums sums, const Matrix&, int, float) { return sums; }
};

// float32 whose weights are stored as halves: kWidth words hold a register of outputs' halves for
// an even k, then those for the odd one. x and all sums are Float32's.
struct Half : Float32 {
  static constexpr int kGroup = 2, kParts = 2;
  static constexpr bool kInterleaved = true;

  // A missing odd number is -0: added to any sum, -0 times 0 leaves it as it is.
  static void pack(const float* x, int count, float scale, uint32_t* to) {
    Float32::pack(x, count, scale, to);
    if (count % kGroup) to[count] = 0x80000000;
  }
  template <int part>
  static Factor read(const uint32_t* words) {
    return load_halves(words + part * kWidth / 2);
  }
};

// Words are two bfloat16, the even k in the lower half.
struct Bfloat16 {
  typedef FloatRegister Sums;
  static constexpr int kGroup = 2;
  static constexpr bool kInterleaved = false;

  static float measure(const float*, int) { return 1.0f; }
  static void pack(const float* x, int count, float, uint32_t* to) {
    uint16_t* halves = reinterpret_cast<uint16_t*>(to);
    for (int k = 0; k < count; k++) halves[k] = to_bf16(x[k]);
    if (count % kGroup) halves[count] = 0;
  }

  static Sums start(const Matrix& matrix, int output) { return load_floats(matrix.bias(output)); }
  static FloatRegister finish(Sums sums, const Matrix&, int, float) { return sums; }
#if defined(__AVX512BF16__)
  typedef __m512bh Factor;
  static constexpr int kParts = 1;

  template <int>
  static Factor read(const uint32_t* words) {
    return reinterpret_cast<Factor>(load_words(words));
  }
  static Factor read_x(const uint32_t* x) { return reinterpret_cast<Factor>(splat_word(*x)); }
  static Sums add_product(Sums sums, Factor x, Factor w) { return _mm512_dpbf16_ps(sums, x, w); }
#else
  typedef FloatRegister Factor;
  static constexpr int kParts = 2;  // the odd numbers, then the even ones

  template <int part>
  static Factor read(const uint32_t* words) {
    const IntRegister pairs = as_ints(load_words(words));
    return as_floats(as_words(part == 0 ? pairs & -0x10000 : pairs << 16));
  }
  static Factor read_x(const uint32_t* x) { return splat_float(*x); }
  static Sums add_product(Sums sums, Factor x, Factor w) { return fused(x, w, sums); }
#endif
};

// Words are four int8, k ascending from the lowest byte; a row's numbers are scale times these.
struct Int8 {
  typedef IntRegister Sums;
  static constexpr int kGroup = 4;
  static constexpr bool kInterleaved = false;
  static constexpr int kMaxColumns = 65536;  // 255 x 127 x kMaxColumns stays below 2^31

  // The scale that takes the largest number to 127. Rows smaller than any number of use (2^-100)
  // are zeros, and a row that holds infinity or NaN has the scale NaN, which all its results take.
  static float measure(const float* x, int in) {
    uint32_t most = 0;
    for (int k = 0; k < in; k++) {
      const uint32_t size = bits_of(x[k]) & 0x7fffffff;
      most = size > most ? size : most;
    }
    if (most >= 0x7f800000) return std::numeric_limits<float>::quiet_NaN();
    float largest;
    std::memcpy(&largest, &most, 4);
    return largest < 7.8886091e-31f ? 0.0f : largest / 127.0f;
  }

  // Number by scale, rounded to the nearest whole one (even, if between two): adding 1.5 x 2^23
  // leaves it in the lowest bits.
  static int8_t quantized(float value, float inverse) {
    return static_cast<int8_t>(bits_of(std::fma(value, inverse, 12582912.0f)));
  }
  static float inverse_of(float scale) { return scale > 0.0f ? 1.0f / scale : 0.0f; }

  // Bytes past the last column are left as they are: their weights are 0.
  static void pack(const float* x, int count, float scale, uint32_t* to) {
    const float inverse = inverse_of(scale);
    uint8_t* bytes = reinterpret_cast<uint8_t*>(to);
    for (int k = 0; k < count; k++) {
      bytes[k] = static_cast<uint8_t>(quantized(x[k], inverse) + kShift);
    }
  }

  static Sums start(const Matrix& matrix, int output) { return load_ints(matrix.offsets(output)); }
  static FloatRegister finish(Sums sums, const Matrix& matrix, int output, float scale) {
    return fused(rounded(sums), load_floats(matrix.scales(output)) * scale,
                 load_floats(matrix.bias(output)));
  }
  typedef WordRegister Factor;
  static Factor read_x(const uint32_t* x) { return splat_word(*x); }

#if defined(__AVX512VNNI__) || defined(__ARM_FEATURE_DOTPROD)
  static constexpr int kParts = 1;
  template <int>
  static Factor read(const uint32_t* words) {
    return load_words(words);
  }
#else
  static constexpr int kParts = 2;  // numbers 0 and 2 of a word, then 1 and 3
  template <int part>
  static Factor read(const uint32_t* words) {
    return part == 0 ? even_bytes(load_words(words)) : odd_bytes(load_words(words));
  }
#endif

#if defined(__AVX512VNNI__)
  // The instruction takes x without a sign: as x + 128, for which the sums start 128 w lower.
  static constexpr int kShift = 128;
  static Sums add_product(Sums sums, Factor x, Factor w) {
    return as_ints(_mm512_dpbusd_epi32(as_words(sums), x, w));
  }
#else
  static constexpr int kShift = 0;
#if defined(__ARM_FEATURE_DOTPROD)
  static Sums add_product(Sums sums, Factor x, Factor w) {
    return vdotq_s32(sums, vreinterpretq_s8_u32(w), vreinterpretq_s8_u32(x));
  }
#else
  static Sums add_product(Sums sums, Factor x, Factor w) { return sums + as_ints(dot_pairs(x, w)); }
#endif
#endif
};

}  // namespace specdec
