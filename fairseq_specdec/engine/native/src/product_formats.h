// What the number formats do differently in a product: how weights and rows are written in words,
// and what a word adds to the sums of a register's outputs.
//
// Each format has
//   kGroup                numbers of a row in a word of weights
//   kParts                words of packed x that belong to a word of weights
//   kTurns                times that a word of weights is read, each for a part of x; else once for
//                         all parts
//   kTileRows             rows of a tile at most
//   measure(x, in)        the row's scale, where it has one; measure_weight for an output's weights
//   pack(x, count, scale, to)
//                         `count` numbers as words, a word's parts side by side
//   start, read, read_x, add_product, finish
//                         the tile's inner loop, from bias to result
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "product.h"
#include "register.h"
#include "simd.h"

namespace specdec {

// Rows of a tile at most: 26 sums in 32 registers (12 in 16) leave room for two registers of weights
// and for x. With 14 rows, 28 sums, int8 was slower than with 13.
constexpr int kMostTileRows = kRegisters == 16 || kWidth == 4 ? 6 : 13;

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

struct Float32 {
  typedef FloatRegister Sums;
  typedef FloatRegister Factor;
  static constexpr int kGroup = 1, kParts = 1, kTurns = 1, kTileRows = kMostTileRows;

  static float measure(const float*, int) { return 1.0f; }
  static float measure_weight(const float*, int) { return 1.0f; }
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
  static constexpr int kGroup = 2, kParts = 2, kTurns = 2;

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
  static constexpr int kGroup = 2, kTileRows = kMostTileRows;

  static float measure(const float*, int) { return 1.0f; }
  static float measure_weight(const float*, int) { return 1.0f; }

  static Sums start(const Matrix& matrix, int output) { return load_floats(matrix.bias(output)); }
  static FloatRegister finish(Sums sums, const Matrix&, int, float) { return sums; }
#if defined(__AVX512BF16__)
  typedef __m512bh Factor;
  static constexpr int kParts = 1, kTurns = 1;

  static void pack(const float* x, int count, float, uint32_t* to) {
    uint16_t* halves = reinterpret_cast<uint16_t*>(to);
    for (int k = 0; k < count; k++) halves[k] = to_bf16(x[k]);
    if (count % kGroup) halves[count] = 0;
  }
  template <int>
  static Factor read(const uint32_t* words) {
    return reinterpret_cast<Factor>(load_words(words));
  }
  static Factor read_x(const uint32_t* x) { return reinterpret_cast<Factor>(splat_word(*x)); }
  static Sums add_product(Sums sums, Factor x, Factor w) { return _mm512_dpbf16_ps(sums, x, w); }
#else
  typedef FloatRegister Factor;
  static constexpr int kParts = 2, kTurns = 2;  // the odd number, then the even one

  static void pack(const float* x, int count, float, uint32_t* to) {
    for (int k = 0; k < count; k++) to[k ^ 1] = static_cast<uint32_t>(to_bf16(x[k])) << 16;
    if (count % kGroup) to[count - 1] = 0;
  }
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
// What a processor's instructions make of them differs, the exact sums do not: see Int8 below.
struct Int8Numbers {
  typedef IntRegister Sums;
  static constexpr int kGroup = 4;
  static constexpr float kMostInt7 = 63.0f;  // the largest weight in 7 bits
  static constexpr int kMaxColumns = 65536;  // 255 x 127 x kMaxColumns stays below 2^31

  // The largest number, by its size. Rows smaller than any number of use (2^-100) are zeros, and a
  // row that holds infinity or NaN gives NaN, for a scale that all its results take.
  static float largest_of_row(const float* x, int in) {
    uint32_t most = 0;
    for (int k = 0; k < in; k++) {
      const uint32_t size = bits_of(x[k]) & 0x7fffffff;
      most = size > most ? size : most;
    }
    if (most >= 0x7f800000) return std::numeric_limits<float>::quiet_NaN();
    float largest;
    std::memcpy(&largest, &most, 4);
    return largest < 7.8886091e-31f ? 0.0f : largest;
  }
  // The scale that takes the largest number to 127.
  static float measure(const float* x, int in) { return largest_of_row(x, in) / 127.0f; }
  static float measure_weight(const float* w, int in) { return measure(w, in); }

  // Number by scale, rounded to the nearest whole one (even, if between two): adding 1.5 x 2^23
  // leaves it in the lowest bits.
  static int8_t quantized(float value, float inverse) {
    return static_cast<int8_t>(bits_of(std::fma(value, inverse, 12582912.0f)));
  }
  static float inverse_of(float scale) { return scale > 0.0f ? 1.0f / scale : 0.0f; }

  static Sums start(const Matrix& matrix, int output) { return load_ints(matrix.offsets(output)); }
  static FloatRegister finish(Sums sums, const Matrix& matrix, int output, float scale) {
    return fused(rounded(sums), load_floats(matrix.scales(output)) * scale,
                 load_floats(matrix.bias(output)));
  }
  typedef WordRegister Factor;
};

#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(SPECDEC_DOT_BYTES)

// 32 numbers as bytes. As int32, packing to bytes cannot saturate but for what no scale fits (NaN,
// whose results are NaN anyway).
inline __m256i bytes_of(const float* x, float inverse) {
  constexpr float kRounder = 12582912.0f;
  const IntRegister zero = as_ints(splat_word(bits_of(kRounder)));
  WordRegister numbers[4];
  for (int i = 0; i < 4; i++) {
    const FloatRegister shifted = fused(load_floats(x + i * kWidth), inverse - FloatRegister{},
                                        kRounder - FloatRegister{});
    numbers[i] = as_words(reinterpret_cast<IntRegister>(shifted) - zero);
  }
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(
      _mm256_packs_epi16(_mm256_packs_epi32(numbers[0], numbers[1]),
                         _mm256_packs_epi32(numbers[2], numbers[3])),
      order);
}

// AVX2 multiplies bytes without a sign by bytes with one: the sizes of x by w with the signs of x.
// The sum of two products fits 16 bits, since 2 x 127 x 127 < 2^15.
struct Int8 : Int8Numbers {
  static constexpr int kParts = 2, kTurns = 1, kTileRows = 4, kShift = 0;
  struct Signed {
    WordRegister sizes, numbers;
  };

  // Each word of x twice: the numbers' sizes, then the numbers. Bytes past the last column are left
  // as they are: their weights are 0.
  static void pack(const float* x, int count, float scale, uint32_t* to) {
    const float inverse = inverse_of(scale);
    int k = 0;
    for (; k + 32 <= count; k += 32) {
      const __m256i numbers = bytes_of(x + k, inverse), sizes = _mm256_abs_epi8(numbers);
      const __m256i even = _mm256_unpacklo_epi32(sizes, numbers);
      const __m256i odd = _mm256_unpackhi_epi32(sizes, numbers);
      __m256i* out = reinterpret_cast<__m256i*>(to + k / 2);
      _mm256_storeu_si256(out, _mm256_permute2x128_si256(even, odd, 0x20));
      _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
    }
    int8_t* bytes = reinterpret_cast<int8_t*>(to);
    for (; k < count; k++) {
      const int8_t number = quantized(x[k], inverse);
      bytes[k / 4 * 8 + k % 4] = static_cast<int8_t>(number < 0 ? -number : number);
      bytes[k / 4 * 8 + 4 + k % 4] = number;
    }
  }
  template <int>
  static Factor read(const uint32_t* words) {
    return load_words(words);
  }
  static Signed read_x(const uint32_t* x) { return {splat_word(x[0]), splat_word(x[1])}; }
  static Sums add_product(Sums sums, const Signed& x, Factor w) {
    const __m256i pairs = _mm256_maddubs_epi16(x.sizes, _mm256_sign_epi8(w, x.numbers));
    return sums + as_ints(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

// Bytes without a sign by 7-bit weights: x is x + 128, for which the sums start 128 w lower.
struct Int7 : Int8Numbers {
  static constexpr int kParts = 1, kTurns = 1, kTileRows = 4, kShift = 128;
  static_assert(2 * 255 * static_cast<int>(kMostInt7) < 1 << 15, "two products fit 16 bits");

  static float measure_weight(const float* w, int in) { return largest_of_row(w, in) / kMostInt7; }
  static void pack(const float* x, int count, float scale, uint32_t* to) {
    const float inverse = inverse_of(scale);
    uint8_t* bytes = reinterpret_cast<uint8_t*>(to);
    const __m256i shift = _mm256_set1_epi8(static_cast<char>(kShift));
    int k = 0;
    for (; k + 32 <= count; k += 32)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes + k),
                          _mm256_add_epi8(bytes_of(x + k, inverse), shift));
    for (; k < count; k++) bytes[k] = static_cast<uint8_t>(quantized(x[k], inverse) + kShift);
  }
  template <int>
  static Factor read(const uint32_t* words) {
    return load_words(words);
  }
  static Factor read_x(const uint32_t* x) { return splat_word(*x); }
  static Sums add_product(Sums sums, Factor x, Factor w) {
    const __m256i pairs = _mm256_maddubs_epi16(x, w);
    return sums + as_ints(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

#else

struct Int8 : Int8Numbers {
  static constexpr int kTileRows = kMostTileRows;
  static Factor read_x(const uint32_t* x) { return splat_word(*x); }
#if defined(SPECDEC_DOT_BYTES) || defined(__ARM_FEATURE_DOTPROD)
  static constexpr int kParts = 1, kTurns = 1;
#if defined(SPECDEC_DOT_BYTES)
  // The instruction takes x without a sign: as x + 128, for which the sums start 128 w lower.
  static constexpr int kShift = 128;
  static Sums add_product(Sums sums, Factor x, Factor w) {
    return as_ints(dot_bytes(as_words(sums), x, w));
  }
#else
  static constexpr int kShift = 0;
  static Sums add_product(Sums sums, Factor x, Factor w) {
    return vdotq_s32(sums, vreinterpretq_s8_u32(w), vreinterpretq_s8_u32(x));
  }
#endif

  // Bytes past the last column are left as they are: their weights are 0.
  static void pack(const float* x, int count, float scale, uint32_t* to) {
    const float inverse = inverse_of(scale);
    uint8_t* bytes = reinterpret_cast<uint8_t*>(to);
    for (int k = 0; k < count; k++)
      bytes[k] = static_cast<uint8_t>(quantized(x[k], inverse) + kShift);
  }
  template <int>
  static Factor read(const uint32_t* words) {
    return load_words(words);
  }
#else
  static constexpr int kParts = 2, kTurns = 2, kShift = 0;  // numbers 0 and 2 of a word, then 1 and 3

  static void pack(const float* x, int count, float scale, uint32_t* to) {
    const float inverse = inverse_of(scale);
    int16_t* halves = reinterpret_cast<int16_t*>(to);
    for (int k = 0; k < count; k++)
      halves[k / 4 * 4 + k % 2 * 2 + k / 2 % 2] = quantized(x[k], inverse);
  }
  template <int part>
  static Factor read(const uint32_t* words) {
    return part == 0 ? even_bytes(load_words(words)) : odd_bytes(load_words(words));
  }
  static Sums add_product(Sums sums, Factor x, Factor w) { return sums + as_ints(dot_pairs(x, w)); }
#endif
};

// 7-bit weights gain nothing here: multiplied as Int8's.
struct Int7 : Int8 {
  static float measure_weight(const float* w, int in) { return largest_of_row(w, in) / kMostInt7; }
};

#endif

}  // namespace specdec
