// Entry points for the tests: products of single matrices.
#include "abi.h"
#include "errors.h"
#include "product.h"

extern "C" {

SPECDEC_API int specdec_matrix_new(int out, int in, const float* weight, const float* bias,
                                   int format, void** matrix) {
  return specdec::guarded([&] {
    *matrix = new specdec::Matrix(out, in, weight, bias, static_cast<specdec::Format>(format));
  });
}

SPECDEC_API void specdec_matrix_free(void* matrix) { delete static_cast<specdec::Matrix*>(matrix); }

SPECDEC_API int specdec_matrix_multiply(const void* matrix, int rows, const float* x, int x_stride,
                                        float* y, int y_stride, int after) {
  return specdec::guarded([&] {
    specdec::multiply(*static_cast<const specdec::Matrix*>(matrix), rows, x, x_stride, y, y_stride,
                      static_cast<specdec::After>(after));
  });
}
}
