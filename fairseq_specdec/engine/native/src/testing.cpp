// Entry points for the tests: products of a single matrix.
#include "abi.h"
#include "errors.h"
#include "product.h"
#include "product_reference.h"

using specdec::After;
using specdec::Format;
using specdec::Matrix;

extern "C" {

SPECDEC_API int specdec_matrix_new(int out, int in, const float* weight, const float* bias,
                                   int format, void** matrix) {
  return specdec::guarded(
      [&] { *matrix = new Matrix(out, in, weight, bias, static_cast<Format>(format)); });
}

SPECDEC_API void specdec_matrix_free(void* matrix) { delete static_cast<Matrix*>(matrix); }

SPECDEC_API int specdec_matrix_multiply(const void* matrix, int rows, const float* x, int x_stride,
                                        float* y, int y_stride, int after) {
  return specdec::guarded([&] {
    specdec::multiply(*static_cast<const Matrix*>(matrix), rows, x, x_stride, y, y_stride,
                      static_cast<After>(after));
  });
}

SPECDEC_API int specdec_matrix_reference(int out, int in, const float* weight, const float* bias,
                                         int format, int rows, const float* x, int x_stride,
                                         float* y, int y_stride, int after) {
  return specdec::guarded([&] {
    specdec::reference::multiply(out, in, weight, bias, static_cast<Format>(format), rows, x,
                                 x_stride, y, y_stride, static_cast<After>(after));
  });
}
}
