// The inner loop of a product: sums of a few rows by a few registers of outputs, kept in registers
// from the first word to the last.
#pragma once

#include "product.h"
#include "register.h"

namespace specdec {
namespace {

// Rows of x are cut into runs of 64 words; a tile's rows lie run by run, [runs][rows][64]. So the
// loop over a run reaches each row at a fixed distance from one pointer, and packing copies whole
// cache lines. One row alone is packed as it stands.
constexpr int kRun = 64;

// Words ahead of use that weights are fetched: about 400 cycles at one word of a panel in 6 to 12.
constexpr int kAhead = 64;

constexpr int kLine = 16;  // words of a cache line

// Rows of a tile at most: 26 sums in 32 registers (12 in 16) leave room for two registers of
// weights and for x. With 14 rows, 28 sums, int8 was slower than with 13.
constexpr int kTileRows = kRegisters == 16 || kWidth == 4 ? 6 : 13;

// Registers of outputs that a tile of so many rows covers. A multiply-add takes 4 cycles and two
// begin in each, so few rows need more registers to have 8 sums under way; one row reads four
// panels at once, as many streams as the prefetchers follow well.
constexpr int columns_of_tile(int rows) {
  if (kWidth == 16) return rows <= 2 ? 8 : rows <= 6 ? 4 : 2;
  if (kWidth == 8) return rows <= 1 ? 8 : rows <= 3 ? 4 : 2;
  return rows <= 3 ? 8 : 4;
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

// Adds one part of a word's products to the sums.
template <typename Kernel, int rows, int columns, int part>
inline void step(const uint32_t* w, size_t panel_words, const uint32_t* x,
                 typename Kernel::Sums (&sums)[rows][columns]) {
  constexpr int kPanel = Matrix::kPanel;
  constexpr int kPart = Kernel::kInterleaved ? 1 : kRun;
  typename Kernel::Factor weights[columns];
#pragma GCC unroll 8
  for (int c = 0; c < columns; c++) {
    const uint32_t* from = w + c * kWidth / kPanel * panel_words + c * kWidth % kPanel;
    weights[c] = Kernel::template read<part*(Kernel::kParts - 1)>(from);
    if (part == 0 && c * kWidth % kLine == 0) __builtin_prefetch(from + kAhead * kPanel);
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++) {
    const typename Kernel::Factor word =
        Kernel::read_x(x + i * Kernel::kParts * kRun + part * kPart);
#pragma GCC unroll 8
    for (int c = 0; c < columns; c++) {
      sums[i][c] = Kernel::add_product(sums[i][c], word, weights[c]);
    }
  }
}

// `rows` rows by `columns` registers of outputs from `first` on, a multiple of columns x kWidth.
template <typename Kernel, int rows, int columns>
inline void tile(const TileTask& task, int first) {
  constexpr int kPanel = Matrix::kPanel;
  const Matrix& matrix = *task.matrix;
  const int panel = first / kPanel, inside = first % kPanel;
  const size_t panel_words = static_cast<size_t>(matrix.steps()) * kPanel;
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
      const uint32_t* here = x + (Kernel::kInterleaved ? Kernel::kParts * k : k);
      step<Kernel, rows, columns, 0>(w, panel_words, here, sums);
      if (Kernel::kParts == 2) step<Kernel, rows, columns, 1>(w, panel_words, here, sums);
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
template <typename Kernel, int rows>
void strip(const TileTask& task, int from, int to) {
  constexpr int kWide = columns_of_tile(rows), kStep = kWide * kWidth;
  constexpr int kNarrow = kStep <= Matrix::kPanel ? kWide : Matrix::kPanel / kWidth;
  const int end = to * Matrix::kPanel;
  int first = from * Matrix::kPanel;
  for (; first + kStep <= end; first += kStep) tile<Kernel, rows, kWide>(task, first);
  for (; first < end; first += kNarrow * kWidth) tile<Kernel, rows, kNarrow>(task, first);
}

typedef void (*Strip)(const TileTask& task, int from, int to);

// strip() for 1 to kTileRows rows.
template <typename Kernel>
Strip strip_of(int rows) {
  static constexpr Strip kStrips[] = {
    strip<Kernel, 1>,
    strip<Kernel, 2>,
    strip<Kernel, 3>,
    strip<Kernel, 4>,
    strip<Kernel, 5>,
    strip<Kernel, 6>,
#if defined(__AVX512F__)
    strip<Kernel, 7>,
    strip<Kernel, 8>,
    strip<Kernel, 9>,
    strip<Kernel, 10>,
    strip<Kernel, 11>,
    strip<Kernel, 12>,
    strip<Kernel, 13>,
#endif
  };
  static_assert(sizeof(kStrips) / sizeof(kStrips[0]) == kTileRows, "one for each number of rows");
  return kStrips[rows - 1];
}

}  // namespace
}  // namespace specdec
