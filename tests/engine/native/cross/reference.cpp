// The plain loops for ``products.py``.
#include "reference.h"

extern "C" void reference_multiply(int out, int in, const float* weight, const float* bias,
                                   int format, int rows, const float* x, int x_stride, float* y,
                                   int y_stride, int after) {
  reference::multiply(out, in, weight, bias, format, rows, x, x_stride, y, y_stride, after);
}
