#include "product.h"

#include <algorithm>

#include "errors.h"
#include "product_formats.h"
#include "product_tile.h"

namespace specdec {

Matrix::Matrix(int out, int in, const float* weight, const float* bias, Format format)
    : out_(out), in_(in), format_(format) {
  require(out > 0 && in > 0, "a matrix needs at least one row and one column");
  steps_ = in;
  const size_t padded = static_cast<size_t>(panels()) * kPanel;
  words_ = Buffer<uint32_t>(padded * steps_);
  bias_ = Buffer<float>(padded);
  if (bias) std::copy(bias, bias + out, bias_.data());
  for (int row = 0; row < out; row++) {
    const float* from = weight + static_cast<size_t>(row) * in;
    uint32_t* to =
        words_.data() + static_cast<size_t>(row / kPanel) * steps_ * kPanel + row % kPanel;
    for (int k = 0; k < in; k++) std::memcpy(to + static_cast<size_t>(k) * kPanel, from + k, 4);
  }
}

namespace {

// Words of x at once: what the second-level cache keeps beside a panel.
constexpr int kBlockWords = 128 * 1024;

int tiles_of(int rows) { return (rows + kTileRows - 1) / kTileRows; }

// Rows of a tile, [rows][x_stride], as [runs][rows][kRun].
void pack_rows(int rows, int in, const float* x, int x_stride, uint32_t* packed) {
  for (int k = 0; k < in; k += kRun) {
    const size_t bytes = static_cast<size_t>(std::min(kRun, in - k)) * 4;
    for (int i = 0; i < rows; i++, packed += kRun) {
      std::memcpy(packed, x + static_cast<size_t>(i) * x_stride + k, bytes);
    }
  }
}

template <typename Kernel>
void multiply_as(const Matrix& matrix, int rows, const float* x, int x_stride, float* y,
                 int y_stride, After after) {
  if (rows == 1) {
    strip_of<Kernel>(1)({&matrix, reinterpret_cast<const uint32_t*>(x), y, y_stride, after}, 0,
                        matrix.panels());
    return;
  }
  static thread_local Buffer<uint32_t> scratch;
  const int row_words = rounded_up(matrix.steps(), kRun) * Kernel::kWordsOfX;
  const int block = std::max(2, kBlockWords / row_words / kTileRows) * kTileRows;
  uint32_t* packed = scratch.reserve(static_cast<size_t>(std::min(rows, block)) * row_words);
  for (; rows > 0; rows -= block, x += static_cast<size_t>(block) * x_stride,
                   y += static_cast<size_t>(block) * y_stride) {
    const int count = std::min(rows, block), tiles = tiles_of(count);
    for (int t = 0; t < tiles; t++) {
      const int row = count * t / tiles, height = count * (t + 1) / tiles - row;
      pack_rows(height, matrix.in(), x + static_cast<size_t>(row) * x_stride, x_stride,
                packed + static_cast<size_t>(row) * row_words);
    }
    const int together = tiles == 1 ? matrix.panels() : 1;
    for (int p = 0; p < matrix.panels(); p += together) {
      for (int t = 0; t < tiles; t++) {
        const int row = count * t / tiles, height = count * (t + 1) / tiles - row;
        strip_of<Kernel>(height)({&matrix, packed + static_cast<size_t>(row) * row_words,
                                  y + static_cast<size_t>(row) * y_stride, y_stride, after},
                                 p, p + together);
      }
    }
  }
}

}  // namespace

void multiply(const Matrix& matrix, int rows, const float* x, int x_stride, float* y, int y_stride,
              After after) {
  multiply_as<Float32>(matrix, rows, x, x_stride, y, y_stride, after);
}

}  // namespace specdec
