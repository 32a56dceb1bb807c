// y = x W^T + b for few rows x, with weights packed once.
//
// Contract: an entry of y depends on its row of x, its column's weights and its bias alone, and is
// computed in the same order for every number of rows and of threads. So a row has the same bits in
// every batch and every block width.
//
// The order, with w and x in the format's numbers and k ascending:
//   float32   bias, then one fused multiply-add after the other
//   bfloat16  the same, of w and x rounded to bfloat16, each odd k before the even one below it
//             (the order of the processors' own instruction, which takes subnormal numbers for 0)
//   int8      sum of w x, exact in int32, then fused(sum, scale of x times scale of w, bias), with
//             w scaled to [-127, 127] for each output and x for each row
//   int7      the same with w scaled to [-63, 63]: AVX2 multiplies such bytes faster
//
// float32 weights that half precision (IEEE binary16) holds exactly, as those of checkpoints saved
// in it, are stored so: a widened half is the same float32, and half as much is read from memory.
#pragma once

#include <memory>

#include "memory.h"
#include "register.h"
#include "simd.h"

namespace specdec {

// kHalf is never asked for: it is how float32 weights are stored that allow it.
enum class Format { kFloat32 = 0, kBfloat16 = 1, kInt8 = 2, kHalf = 3, kInt7 = 4 };

// Whether weights are whole numbers in bytes, with a scale for each output.
inline bool in_bytes(Format format) { return format == Format::kInt8 || format == Format::kInt7; }

// How the numbers of a weight are given.
enum class Numbers { kFloat32 = 0, kHalf = 1, kBfloat16 = 2 };

// What becomes of a result: stored, stored if positive (else 0), or added to what is there.
enum class After { kStore, kRelu, kAdd };

// What a packed matrix consists of. Its layout is that of the variant that packed it.
struct MatrixParts {
  int32_t out, in;
  int32_t format;      // a Format, as it is stored
  int64_t words_size;  // numbers there are
  const uint32_t* words;
  int64_t outputs;  // of each of the following
  const float* bias;
  const float* scales;     // int8 and int7 alone; else null
  const int32_t* offsets;  // likewise
};

// A weight of `out` rows and `in` columns in panels of 32 outputs. A panel is [steps][32] words of
// 32 bits, and a word holds 1, 2 or 4 neighbours of an output's weights, by the format: all
// that 32 outputs need lies in one run of memory, in the order of use.
class Matrix {
 public:
  static constexpr int kPanel = 2 * kWidth < 16 ? 16 : 2 * kWidth;

  Matrix() = default;
  // weight: [out][in] of such numbers; bias: [out] or null. Throws std::invalid_argument for sizes
  // below 1, or a matrix in bytes whose sums may leave int32; std::bad_alloc.
  Matrix(int out, int in, const void* weight, const float* bias, Format format,
         Numbers numbers = Numbers::kFloat32);
  // A matrix in memory that the caller keeps as long. Throws std::invalid_argument where the parts
  // are not those of such a matrix; numbers in them are not looked at.
  explicit Matrix(const MatrixParts& parts);
  MatrixParts parts() const;

  int out() const { return out_; }
  int in() const { return in_; }
  Format format() const { return format_; }
  int panels() const { return rounded_up(out_, kPanel) / kPanel; }
  int steps() const { return steps_; }  // words of an output

  // weight[output][in], with the numbers that the products use; std::invalid_argument for bytes.
  void read_row(int output, float* weight) const;

  // The words of a panel; what each output needs from `output` on. Outputs past the last are zeros.
  const uint32_t* words(int panel) const {
    return words_.data() + static_cast<size_t>(panel) * steps_ * kPanel;
  }
  const float* bias(int output) const { return bias_.data() + output; }
  const float* scales(int output) const { return scales_.data() + output; }
  const int32_t* offsets(int output) const { return offsets_.data() + output; }

 private:
  friend class MatrixRows;
  friend class ChosenOutputs;
  void check_size() const;
  template <typename Kernel>
  void pack_row(int output, const float* weight);
  size_t half(int output, int column) const;

  int out_ = 0, in_ = 0, steps_ = 0;
  Format format_ = Format::kFloat32;
  Buffer<uint32_t> words_;
  Buffer<float> bias_;
  Buffer<float> scales_;     // of bytes alone
  Buffer<int32_t> offsets_;  // of bytes alone: where sums start
};

// Matrices never change; stacks and the modules that they came from share them.
typedef std::shared_ptr<const Matrix> SharedMatrix;

// y[rows][y_stride] from x[rows][x_stride]. y must not overlap x.
void multiply(const Matrix& matrix, int rows, const float* x, int x_stride, float* y, int y_stride,
              After after);

}  // namespace specdec
