#include "product.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "errors.h"
#include "pool.h"
#include "product_formats.h"
#include "product_tile.h"

namespace specdec {
namespace {

// Calls `body` with the kernel of a format as its argument's type.
template <typename Body>
void with_kernel(Format format, Body&& body) {
  switch (format) {
    case Format::kFloat32:
      return body(Float32());
    case Format::kBfloat16:
      return body(Bfloat16());
    case Format::kInt8:
      return body(Int8());
    case Format::kHalf:
      return body(Half());
    case Format::kInt7:
      return body(Int7());
  }
  require(false, "unknown number format");
}

// One word of the weights of an output.
uint32_t word_of(Float32, const float* weight, int, float) { return bits_of(weight[0]); }

uint32_t word_of(Bfloat16, const float* weight, int count, float) {
  const uint32_t odd = count > 1 ? to_bf16(weight[1]) : 0;
  return to_bf16(weight[0]) | odd << 16;
}

uint32_t word_of(Int8Numbers, const float* weight, int count, float scale) {
  uint32_t word = 0;
  const float inverse = Int8Numbers::inverse_of(scale);
  for (int i = 0; i < std::min(count, Int8Numbers::kGroup); i++) {
    word |= static_cast<uint32_t>(static_cast<uint8_t>(Int8Numbers::quantized(weight[i], inverse)))
            << 8 * i;
  }
  return word;
}

// A row of a weight in float32, valid until the next one: no second copy of the whole is made.
const float* row_of(int output, int in, const void* weight, Numbers numbers) {
  static thread_local Buffer<float> row;
  const size_t from = static_cast<size_t>(output) * in;
  if (numbers == Numbers::kFloat32) return static_cast<const float*>(weight) + from;
  const uint16_t* given = static_cast<const uint16_t*>(weight) + from;
  const bool half = numbers == Numbers::kHalf;
  float* to = row.reserve(in);
  for (int k = 0; k < in; k++) to[k] = half ? from_half(given[k]) : from_bf16(given[k]);
  return to;
}

// Whether halves hold all numbers to the last bit (NaN at most by chance).
bool exact_in_halves(int out, int in, const void* weight, Numbers numbers) {
  for (int i = 0; i < out; i++) {
    const float* row = row_of(i, in, weight, numbers);
    for (int k = 0; k < in; k++)
      if (bits_of(from_half(to_half(row[k]))) != bits_of(row[k])) return false;
  }
  return true;
}

int32_t sum_of_bytes(uint32_t word) {
  int32_t sum = 0;
  for (int i = 0; i < 4; i++) sum += static_cast<int8_t>(word >> 8 * i);
  return sum;
}

}  // namespace

template <typename Kernel>
void Matrix::pack_row(int output, const float* weight) {
  const float scale = Kernel::measure_weight(weight, in_);
  uint32_t* to = words_.data() + static_cast<size_t>(output / kPanel) * steps_ * kPanel;
  int32_t total = 0;
  for (int k = 0; k < steps_; k++) {
    const int from = k * Kernel::kGroup;
    const uint32_t word = word_of(Kernel(), weight + from, in_ - from, scale);
    to[static_cast<size_t>(k) * kPanel + output % kPanel] = word;
    total += sum_of_bytes(word);
  }
  if constexpr (std::is_base_of<Int8Numbers, Kernel>::value) {
    scales_.data()[output] = scale;
    offsets_.data()[output] = -Kernel::kShift * total;
  }
}

// Where a weight that is a half lies, in halves.
size_t Matrix::half(int output, int column) const {
  const int inside = output % kPanel;
  const size_t line = static_cast<size_t>(output / kPanel) * steps_ + column / Half::kGroup;
  return 2 * (line * kPanel + inside / kWidth * kWidth) + column % Half::kGroup * kWidth +
         inside % kWidth;
}

template <>
void Matrix::pack_row<Half>(int output, const float* weight) {
  uint16_t* halves = reinterpret_cast<uint16_t*>(words_.data());
  for (int k = 0; k < in_; k++) halves[half(output, k)] = to_half(weight[k]);
}

Matrix::Matrix(int out, int in, const void* weight, const float* bias, Format format,
               Numbers numbers)
    : out_(out), in_(in), format_(format) {
  check_size();
  require(format != Format::kHalf, "unknown number format");
  require(numbers >= Numbers::kFloat32 && numbers <= Numbers::kBfloat16,
          "a weight in unknown numbers");
  if (format == Format::kFloat32 && weight != nullptr && exact_in_halves(out, in, weight, numbers))
    format = format_ = Format::kHalf;
  const size_t outputs = static_cast<size_t>(panels()) * kPanel;
  with_kernel(format, [&](auto kernel) {
    typedef decltype(kernel) Kernel;
    steps_ = rounded_up(in, Kernel::kGroup) / Kernel::kGroup;
    words_ = Buffer<uint32_t>(outputs * steps_);
    bias_ = Buffer<float>(outputs);
    if (bias) std::copy(bias, bias + out, bias_.data());
    if (in_bytes(format)) {
      scales_ = Buffer<float>(outputs);
      offsets_ = Buffer<int32_t>(outputs);
    }
    for (int i = 0; i < out; i++) pack_row<Kernel>(i, row_of(i, in, weight, numbers));
  });
}

void Matrix::check_size() const {
  constexpr int kMost = std::numeric_limits<int>::max() - 63;  // rounded up, still an int
  require(out_ > 0 && in_ > 0 && out_ <= kMost && in_ <= kMost,
          "a matrix needs at least one row and one column, and fewer than 2^31 - 63");
  require(!in_bytes(format_) || in_ <= Int8Numbers::kMaxColumns,
          "an int8 or int7 matrix has 65,536 columns at most");
}

Matrix::Matrix(const MatrixParts& parts)
    : out_(parts.out), in_(parts.in), format_(static_cast<Format>(parts.format)) {
  check_size();
  with_kernel(format_, [&](auto kernel) {
    typedef decltype(kernel) Kernel;
    steps_ = rounded_up(in_, Kernel::kGroup) / Kernel::kGroup;
  });
  const int64_t outputs = int64_t{panels()} * kPanel;
  const bool bytes = in_bytes(format_);
  require(parts.outputs == outputs && parts.words_size == outputs * steps_,
          "a packed matrix of another size");
  require(parts.words != nullptr && parts.bias != nullptr &&
              bytes == (parts.scales != nullptr) && bytes == (parts.offsets != nullptr),
          "a packed matrix without its parts, or with others");
  words_ = Buffer<uint32_t>::borrowed(parts.words, parts.words_size);
  bias_ = Buffer<float>::borrowed(parts.bias, outputs);
  if (!bytes) return;
  scales_ = Buffer<float>::borrowed(parts.scales, outputs);
  offsets_ = Buffer<int32_t>::borrowed(parts.offsets, outputs);
}

MatrixParts Matrix::parts() const {
  return {out_,
          in_,
          static_cast<int32_t>(format_),
          static_cast<int64_t>(words_.size()),
          words_.data(),
          static_cast<int64_t>(bias_.size()),
          bias_.data(),
          scales_.data(),
          offsets_.data()};
}

void Matrix::read_row(int output, float* weight) const {
  require(output >= 0 && output < out_, "row index out of range");
  require(!in_bytes(format_), "int8 and int7 weights cannot be unpacked");
  const uint32_t* column = words(output / kPanel) + output % kPanel;
  if (format_ == Format::kFloat32) {
    for (int k = 0; k < in_; k++, column += kPanel) std::memcpy(weight + k, column, 4);
    return;
  }
  const uint16_t* pairs = reinterpret_cast<const uint16_t*>(column);
  size_t second = 1;  // where a pair's other number lies
  if (format_ == Format::kHalf) {
    pairs = reinterpret_cast<const uint16_t*>(words_.data()) + half(output, 0);
    second = kWidth;
  }
  for (int k = 0; k < in_; k++) {
    const uint16_t number = pairs[k / 2 * 2 * kPanel + k % 2 * second];
    weight[k] = format_ == Format::kHalf ? from_half(number) : from_bf16(number);
  }
}

namespace {

// Words of packed x at once, 512 KB: what the second-level cache holds beside a panel.
constexpr int kBlockWords = 128 * 1024;

// Multiplications from which on threads share a product: 300 microseconds of one core, where waking
// another took up to 80.
constexpr double kSharedWork = 3e7;

// Rows of x as tiles read them. Rows are shared out evenly: 14 are two tiles of 7.
template <typename Kernel>
class PackedRows {
 public:
  PackedRows(int rows, int in, const float* x, int x_stride)
      : rows_(rows),
        in_(in),
        row_words_(rounded_up(rounded_up(in, Kernel::kGroup) / Kernel::kGroup, kRun) *
                   Kernel::kParts) {
    static thread_local Buffer<float> scales;
    static thread_local Buffer<uint32_t> words;
    scales_ = scales.reserve(rows);
    words_ = words.reserve(static_cast<size_t>(rows) * row_words_);
    for (int t = 0; t < tiles(); t++) pack(t, x, x_stride);
  }

  int tiles() const { return (rows_ + Kernel::kTileRows - 1) / Kernel::kTileRows; }
  int first(int tile) const { return rows_ * tile / tiles(); }
  int height(int tile) const { return first(tile + 1) - first(tile); }
  const float* scales(int tile) const { return scales_ + first(tile); }
  const uint32_t* words(int tile) const {
    return words_ + static_cast<size_t>(first(tile)) * row_words_;
  }

 private:
  void pack(int tile, const float* x, int x_stride) {
    constexpr int kNumbers = kRun * Kernel::kGroup;
    const int count = height(tile), row = first(tile);
    for (int i = 0; i < count; i++) {
      const float* from = x + static_cast<size_t>(row + i) * x_stride;
      const float scale = scales_[row + i] = Kernel::measure(from, in_);
      uint32_t* to = words_ + static_cast<size_t>(row) * row_words_ + i * kRun * Kernel::kParts;
      for (int k = 0; k < in_; k += kNumbers, to += count * kRun * Kernel::kParts)
        Kernel::pack(from + k, std::min(kNumbers, in_ - k), scale, to);
    }
  }

  int rows_, in_, row_words_;
  float* scales_;
  uint32_t* words_;
};

// All tiles of one panel in turn, so that a panel is fetched from memory once.
template <typename Kernel>
void multiply_panels(const Matrix& matrix, const PackedRows<Kernel>& packed, float* y, int y_stride,
                     After after, int from, int to) {
  const int together = packed.tiles() == 1 ? to - from : 1;
  const bool large = static_cast<size_t>(matrix.panels()) * Matrix::kPanel * matrix.steps() > kLarge;
  for (int panel = from; panel < to; panel += together) {
    for (int t = 0; t < packed.tiles(); t++) {
      float* rows = y + static_cast<size_t>(packed.first(t)) * y_stride;
      const TileTask task = {&matrix, packed.words(t), packed.scales(t), rows, y_stride, after};
      const auto strip = large ? strip_of<Kernel, true> : strip_of<Kernel, false>;
      strip(packed.height(t))(task, panel, panel + together);
    }
  }
}

// In how many pieces a product is shared out: 4 for each thread, so that a late one costs little,
// of 4 panels at least, and in one where threads would gain less than their waking costs. Fewer
// than 4 rows take the time of 4, which is that of reading the weights.
int pieces_of(const Matrix& matrix, int rows) {
  const double work = static_cast<double>(std::max(rows, 4)) * matrix.out() * matrix.in();
  if (Pool::threads() == 1 || work < kSharedWork) return 1;
  return std::max(1, std::min(4 * Pool::threads(), matrix.panels() / 4));
}

template <typename Kernel>
void multiply_block(const Matrix& matrix, int rows, const float* x, int x_stride, float* y,
                    int y_stride, After after) {
  const PackedRows<Kernel> packed(rows, matrix.in(), x, x_stride);
  const int pieces = pieces_of(matrix, rows), panels = matrix.panels();
  Pool::run(pieces, [&](int piece) {
    multiply_panels(matrix, packed, y, y_stride, after, panels * piece / pieces,
                    panels * (piece + 1) / pieces);
  });
}

}  // namespace

void multiply(const Matrix& matrix, int rows, const float* x, int x_stride, float* y, int y_stride,
              After after) {
  with_kernel(matrix.format(), [&](auto kernel) {
    typedef decltype(kernel) Given;
    typedef std::conditional_t<std::is_base_of<Int8, Given>::value, Int8, Given> Kernel;
    const int row_words = rounded_up(matrix.steps(), kRun) * Kernel::kParts;
    const int block = std::max(1, kBlockWords / row_words / Kernel::kTileRows) * Kernel::kTileRows;
    for (int row = 0; row < rows; row += block) {
      multiply_block<Kernel>(matrix, std::min(block, rows - row),
                             x + static_cast<size_t>(row) * x_stride, x_stride,
                             y + static_cast<size_t>(row) * y_stride, y_stride, after);
    }
  });
}

}  // namespace specdec
