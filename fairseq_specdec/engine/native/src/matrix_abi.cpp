// Entry points for products of a single matrix. A handle of Python's is a SharedMatrix of its own.
#include "abi.h"
#include "errors.h"
#include "product.h"

using specdec::After;
using specdec::Format;
using specdec::Matrix;
using specdec::SharedMatrix;

extern "C" {

// weight: [out][in] of such numbers (a specdec::Numbers).
SPECDEC_API int specdec_matrix_new(int out, int in, const void* weight, int numbers,
                                   const float* bias, int format, void** matrix) {
  return specdec::guarded([&] {
    *matrix = new SharedMatrix(
        std::make_shared<const Matrix>(out, in, weight, bias, static_cast<Format>(format),
                                       static_cast<specdec::Numbers>(numbers)));
  });
}

// A packed matrix in memory that the caller keeps until it and all that it was given to are freed.
SPECDEC_API int specdec_matrix_borrow(const specdec::MatrixParts* parts, void** matrix) {
  return specdec::guarded(
      [&] { *matrix = new SharedMatrix(std::make_shared<const Matrix>(*parts)); });
}

// Where a matrix's packed numbers lie, as long as it lives.
SPECDEC_API int specdec_matrix_parts(const void* matrix, specdec::MatrixParts* parts) {
  return specdec::guarded(
      [&] { *parts = (*static_cast<const SharedMatrix*>(matrix))->parts(); });
}

SPECDEC_API void specdec_matrix_free(void* matrix) { delete static_cast<SharedMatrix*>(matrix); }

// rows[count][in] of the weight, those numbered `numbers`; all of them in order where it is null.
SPECDEC_API int specdec_matrix_rows(const void* matrix, int64_t count, const int64_t* numbers,
                                    float* rows) {
  return specdec::guarded([&] {
    const Matrix& self = **static_cast<const SharedMatrix*>(matrix);
    specdec::require(count >= 0, "a negative number of rows");
    for (int64_t i = 0; i < count; i++) {
      const int64_t number = numbers == nullptr ? i : numbers[i];
      specdec::require(number >= 0 && number < self.out(), "row index out of range");
      self.read_row(static_cast<int>(number), rows + i * self.in());
    }
  });
}

SPECDEC_API int specdec_matrix_multiply(const void* matrix, int rows, const float* x, int x_stride,
                                        float* y, int y_stride, int after) {
  return specdec::guarded([&] {
    const Matrix& self = **static_cast<const SharedMatrix*>(matrix);
    specdec::require(rows >= 0 && x_stride >= self.in() && y_stride >= self.out(),
                     "rows that are shorter than the matrix");
    specdec::multiply(**static_cast<const SharedMatrix*>(matrix), rows, x, x_stride, y, y_stride,
                      static_cast<After>(after));
  });
}

}
