// Products of random shapes against plain loops, without Python: for processors that are emulated.
// Prints what differs and exits 1, or prints how many products were the same bit by bit.
#include <cstdio>
#include <random>
#include <vector>

#include "pool.cpp"
#include "product.cpp"
#include "reference.h"

namespace {

using specdec::After;
using specdec::Format;

std::mt19937 generator(1);

int any_of(int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); }

std::vector<float> numbers(size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> result(count);
  for (float& each : result) each = normal(generator);
  return result;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// One product, whole and row by row; whether both are as the plain loops say. kHalf stands for
// float32 weights that halves hold.
bool check(Format kind, After after) {
  const Format format = kind == Format::kHalf ? Format::kFloat32 : kind;
  const int out = any_of(1, 150), in = any_of(1, 300), rows = any_of(1, 40);
  const int x_stride = in + any_of(0, 5), y_stride = out + any_of(0, 5);
  std::vector<float> weight = numbers(static_cast<size_t>(out) * in), bias = numbers(out);
  if (kind == Format::kHalf)
    for (float& each : weight) each = specdec::from_half(specdec::to_half(each));
  const std::vector<float> x = numbers(static_cast<size_t>(rows) * x_stride);
  std::vector<float> expected = numbers(static_cast<size_t>(rows) * y_stride);
  std::vector<float> whole = expected, single = expected;
  const specdec::Matrix matrix(out, in, weight.data(), bias.data(), format);
  specdec::multiply(matrix, rows, x.data(), x_stride, whole.data(), y_stride, after);
  for (int i = 0; i < rows; i++) {
    specdec::multiply(matrix, 1, x.data() + static_cast<size_t>(i) * x_stride, x_stride,
                      single.data() + static_cast<size_t>(i) * y_stride, y_stride, after);
  }
  reference::multiply(out, in, weight.data(), bias.data(), static_cast<int>(format), rows, x.data(),
                      x_stride, expected.data(), y_stride, static_cast<int>(after));
  if (same(whole, expected) && same(single, expected) && matrix.format() == kind) return true;
  std::printf("format %d, after %d: %d rows of %d by %d differ\n", static_cast<int>(kind),
              static_cast<int>(after), rows, in, out);
  return false;
}

}  // namespace

int main() {
  const Format formats[] = {Format::kFloat32, Format::kBfloat16, Format::kInt8, Format::kHalf,
                            Format::kInt7};
  const After afters[] = {After::kStore, After::kRelu, After::kAdd};
  int good = 0, bad = 0;
  for (int i = 0; i < 40; i++) {
    for (Format format : formats) {
      for (After after : afters) (check(format, after) ? good : bad)++;
    }
  }
  std::printf("%d products agree, %d do not\n", good, bad);
  return bad ? 1 : 0;
}
