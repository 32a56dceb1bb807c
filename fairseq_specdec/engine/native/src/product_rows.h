// Some rows of a matrix as a matrix of their own.
#pragma once

#include <vector>

#include "product.h"

namespace specdec {

// A matrix's words row by row, where panels have those of 32 outputs side by side: a row that is
// wanted is then one run of memory.
class MatrixRows {
 public:
  explicit MatrixRows(SharedMatrix whole);

  // Makes `some` a matrix of the rows `numbers`, at least one, each in [0, out()). An output of it
  // has the bits of the same output of the whole matrix. Memory of `some` is used again.
  void gather(const std::vector<int>& numbers, Matrix& some) const;

  int out() const { return whole_->out(); }

 private:
  SharedMatrix whole_;
  Buffer<uint32_t> words_;  // [out][steps]; of halves, each with its own pair
};

// Chosen outputs of a matrix, in the order in which they were chosen, as a matrix that grows.
class ChosenOutputs {
 public:
  explicit ChosenOutputs(SharedMatrix whole) : whole_(std::move(whole)) {}

  // Each output of the matrix has the bits of the same output of the whole one.
  void append(int output);
  void clear() { some_.out_ = 0; }

  const Matrix& matrix() const { return some_; }
  const Matrix& whole() const { return *whole_; }

 private:
  SharedMatrix whole_;
  Matrix some_;
};

}  // namespace specdec
