// The inner loop of a product: sums of a few rows by a few registers of outputs, kept in registers
// from the first word to the last.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "product.h"
#include "product_formats.h"
#include "register.h"

namespace specdec {
namespace {

// Rows of x are cut into runs of 64 words; a tile's rows lie run by run, [runs][rows][64]. So the
// loop over a run reaches each row at a fixed distance from one pointer, and packing copies whole
// cache lines. One row alone is packed as it stands.
constexpr int kRun = 64;

// Words from which on a matrix, 12 MB, hardly stays in a cache: its weights are read panel by panel.
constexpr size_t kLarge = 3 << 20;

// Words ahead of use that weights are fetched at most, 64 KB.
constexpr size_t kAhead = 1 << 14;

constexpr int kLine = 16;  // words of a cache line

// Whether a tile of so many rows takes the time of reading its weights.
template <typename Kernel>
constexpr bool waits_for_weights(int rows) {
  return rows * Kernel::kTurns <= 4;
}

// Whether the processor fetches such weights faster unasked: on AMD's, asking takes more of the load
// units' time than it saves (benchmarks/design-log.md).
inline bool prefetches_unasked() {
#if defined(__x86_64__)
  unsigned most = 0, name[3] = {};
  return __get_cpuid(0, &most, &name[0], &name[2], &name[1]) != 0 &&
         std::memcmp(name, "AuthenticAMD", sizeof name) == 0;
#else
  return false;
#endif
}

template <typename Kernel>
constexpr bool three_of_halves(int rows) {
  return kRegisters == 16 && rows == 3 && std::is_same<Kernel, Half>::value;
}

// Registers of outputs that a tile of so many rows covers. A multiply-add takes 4 cycles and two
// begin in each, so few rows need more registers to have 8 sums under way; where weights come from
// memory, one panel after the other is faster. Beside 12 sums, 16 registers have no room for
// weights that are widened and three rows' x, but for halves (step_of_three).
template <typename Kernel, bool large>
constexpr int columns_of_tile(int rows) {
  constexpr int kPanel = Matrix::kPanel / kWidth;
  if (kWidth == 4) return rows <= 3 ? 8 : kPanel;
  if (large || Kernel::kTileRows == 4 || rows > 3) return kPanel;
  if (kWidth == 16) return rows <= 2 ? 8 : 4;
  const bool wide = rows == 2 || Kernel::kTurns == 1 || three_of_halves<Kernel>(rows);
  return rows == 1 ? 8 : wide ? 4 : kPanel;
}

struct TileTask {
  const Matrix* matrix;
  const uint32_t* x;    // the tile's rows, packed
  const float* scales;  // one for each of them
  float* y;             // the tile's first row
  int y_stride;
  After after;
};

// Stores the `left` lanes of a result that belong to the matrix; apart, as the last panel alone
// needs it.
__attribute__((noinline)) void emit_some(FloatRegister value, float* y, int left, After after) {
  float lanes[kWidth];
  store_floats(lanes, value);
  for (int i = 0; i < left; i++) y[i] = after == After::kAdd ? y[i] + lanes[i] : lanes[i];
}

inline void emit(FloatRegister value, float* y, int left, After after) {
  if (after == After::kRelu) value = positive(value);
  if (left < kWidth) return emit_some(value, y, left, after);
  store_floats(y, after == After::kAdd ? load_floats(y) + value : value);
}

// Adds one part of a word's products to the sums; `ahead`: words ahead of their use that weights are
// fetched, or 0.
template <typename Kernel, int rows, int columns, int part>
inline void step(const uint32_t* w, size_t panel_words, const uint32_t* x, size_t ahead,
                 typename Kernel::Sums (&sums)[rows][columns]) {
  const auto word = [&](int row) { return Kernel::read_x(x + row * Kernel::kParts * kRun + part); };
  const auto weight = [&](int c) {
    const uint32_t* from = w + c * kWidth / Matrix::kPanel * panel_words + c * kWidth % Matrix::kPanel;
    if (ahead > 0 && part == 0 && c * kWidth % kLine == 0) __builtin_prefetch(from + ahead, 0, 2);
    return Kernel::template read<part*(Kernel::kParts - 1)>(from);
  };
  if constexpr (kRegisters == 16 && rows <= 2) {
    // x stays in registers, and the weights pass through one.
    decltype(word(0)) words[rows];
    for (int i = 0; i < rows; i++) words[i] = word(i);
#pragma GCC unroll 8
    for (int c = 0; c < columns; c++) {
      const auto one = weight(c);
      for (int i = 0; i < rows; i++) sums[i][c] = Kernel::add_product(sums[i][c], words[i], one);
    }
    return;
  }
  typename Kernel::Factor weights[columns];
#pragma GCC unroll 8
  for (int c = 0; c < columns; c++) weights[c] = weight(c);
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++) {
    const auto one = word(i);
#pragma GCC unroll 8
    for (int c = 0; c < columns; c++) sums[i][c] = Kernel::add_product(sums[i][c], one, weights[c]);
  }
}

#if defined(__AVX2__) && !defined(__AVX512F__)
// step() of three rows of halves by two panels, both parts: 12 sums, x of the rows and a weight take
// all 16 registers, and GCC 12 keeps a sum in memory whatever the order in C++.
inline void step_of_three(const uint32_t* w, const uint32_t* v, const uint32_t* x,
                          FloatRegister (&s)[3][4]) {
  static_assert(4 * Half::kParts * kRun == 512 && 4 * kWidth == 32, "the distances below");
#define SPECDEC_COLUMN(weights, a, b, c)                                                      \
  "vcvtph2ps " weights ", %%ymm15\n\tvfmadd231ps %%ymm12, %%ymm15, %" #a "\n\t"               \
  "vfmadd231ps %%ymm13, %%ymm15, %" #b "\n\tvfmadd231ps %%ymm14, %%ymm15, %" #c "\n\t"
#define SPECDEC_PART(at, x)                                                                   \
  "vbroadcastss " #x "(%14), %%ymm12\n\tvbroadcastss 512+" #x "(%14), %%ymm13\n\t"            \
  "vbroadcastss 1024+" #x "(%14), %%ymm14\n\t" SPECDEC_COLUMN(#at "(%12)", 0, 4, 8)           \
  SPECDEC_COLUMN("32+" #at "(%12)", 1, 5, 9) SPECDEC_COLUMN(#at "(%13)", 2, 6, 10)            \
  SPECDEC_COLUMN("32+" #at "(%13)", 3, 7, 11)
  __asm__ volatile(SPECDEC_PART(0, 0) SPECDEC_PART(16, 4)
                   : "+x"(s[0][0]), "+x"(s[0][1]), "+x"(s[0][2]), "+x"(s[0][3]), "+x"(s[1][0]),
                     "+x"(s[1][1]), "+x"(s[1][2]), "+x"(s[1][3]), "+x"(s[2][0]), "+x"(s[2][1]),
                     "+x"(s[2][2]), "+x"(s[2][3])
                   : "r"(w), "r"(v), "r"(x)
                   : "xmm12", "xmm13", "xmm14", "xmm15", "memory");
#undef SPECDEC_PART
#undef SPECDEC_COLUMN
}
#endif

// `rows` rows by `columns` registers of outputs from `first` on, a multiple of columns x kWidth.
template <typename Kernel, int rows, int columns, bool fetch>
inline void tile(const TileTask& task, int first) {
  constexpr int kPanel = Matrix::kPanel;
  const Matrix& matrix = *task.matrix;
  const int panel = first / kPanel, inside = first % kPanel;
  const size_t panel_words = static_cast<size_t>(matrix.steps()) * kPanel;
  // At the same place in the next tile's panels.
  const size_t next = std::max(1, columns * kWidth / kPanel) * panel_words;
  const size_t ahead = fetch ? std::min(next, kAhead) : 0;
  const uint32_t* w = matrix.words(panel) + inside;
  const uint32_t* x = task.x;
  typename Kernel::Sums sums[rows][columns];
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++) {
#pragma GCC unroll 8
    for (int c = 0; c < columns; c++) {
      sums[i][c] = Kernel::start(matrix, first + c * kWidth);
    }
  }
  for (int left = matrix.steps(); left > 0; left -= kRun) {
    const int run = left < kRun ? left : kRun;
    for (int k = 0; k < run; k++, w += kPanel) {
      const uint32_t* here = x + Kernel::kParts * k;
#if defined(__AVX2__) && !defined(__AVX512F__)
      if constexpr (three_of_halves<Kernel>(rows) && columns == 4) {
        step_of_three(w, w + panel_words, here, sums);
        continue;
      }
#endif
      step<Kernel, rows, columns, 0>(w, panel_words, here, ahead, sums);
      if (Kernel::kTurns == 2) step<Kernel, rows, columns, 1>(w, panel_words, here, ahead, sums);
    }
    x += rows * kRun * Kernel::kParts;
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++) {
    float* y = task.y + static_cast<size_t>(i) * task.y_stride + first;
#pragma GCC unroll 8
    for (int c = 0; c < columns; c++) {
      const int left = matrix.out() - first - c * kWidth;
      if (left <= 0) continue;
      emit(Kernel::finish(sums[i][c], matrix, first + c * kWidth, task.scales[i]), y + c * kWidth,
           left, task.after);
    }
  }
}

// A tile of `rows` rows over the panels `from` to `to`.
template <typename Kernel, int rows, int columns, bool fetch>
void strip(const TileTask& task, int from, int to) {
  constexpr int kStep = columns * kWidth;
  constexpr int kNarrow = kStep <= Matrix::kPanel ? columns : Matrix::kPanel / kWidth;
  const int end = to * Matrix::kPanel;
  int first = from * Matrix::kPanel;
  for (; first + kStep <= end; first += kStep) tile<Kernel, rows, columns, fetch>(task, first);
  for (; first < end; first += kNarrow * kWidth) tile<Kernel, rows, kNarrow, fetch>(task, first);
}

typedef void (*Strip)(const TileTask& task, int from, int to);

// strip() for 1 to Kernel::kTileRows rows, of a matrix that is large or not.
template <typename Kernel, bool large, int rows = Kernel::kTileRows>
Strip strip_of(int count) {
  if constexpr (rows > 1) {
    if (count < rows) return strip_of<Kernel, large, rows - 1>(count);
  }
  constexpr int kColumns = columns_of_tile<Kernel, large>(rows);
  if constexpr (waits_for_weights<Kernel>(rows)) {
    static const bool unasked = prefetches_unasked();
    if (unasked) return strip<Kernel, rows, kColumns, false>;
  }
  return strip<Kernel, rows, kColumns, true>;
}

}  // namespace
}  // namespace specdec
