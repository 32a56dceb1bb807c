// Loads a finished variant, as ctypes does, and compares its products with plain loops.
// Arguments: the probe, the variant. Prints the probe's answer, the variant's stamp, how many
// products agree.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "reference.h"

namespace {

template <typename Function>
Function entry(void* object, const char* name) {
  void* symbol = dlsym(object, name);
  if (!symbol) std::printf("no %s\n", name);
  return reinterpret_cast<Function>(symbol);
}

void* loaded(const char* path) {
  void* object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!object) std::printf("%s\n", dlerror());
  return object;
}

std::vector<float> numbers(int count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> result(count);
  for (float& each : result) each = normal(generator);
  return result;
}

}  // namespace

int main(int, char** arguments) {
  void *probe = loaded(arguments[1]), *variant = loaded(arguments[2]);
  if (!probe || !variant) return 1;
  std::printf("%u\n", entry<unsigned (*)()>(probe, "specdec_variants")());
  std::printf("%s\n", entry<const char* (*)()>(variant, "specdec_stamp")());
  const auto make = entry<int (*)(int, int, const void*, int, const float*, int, void**)>(
      variant, "specdec_matrix_new");
  const auto multiply = entry<int (*)(const void*, int, const float*, int, float*, int, int)>(
      variant, "specdec_matrix_multiply");
  int agree = 0;
  for (int format = 0; format < 3; format++) {
    for (int rows = 1; rows <= 20; rows++) {
      const int out = 7 * rows, in = 64 + 5 * rows;
      const auto weight = numbers(out * in, rows), bias = numbers(out, 1), x = numbers(rows * in, 2);
      std::vector<float> y(rows * out), expected(rows * out);
      void* matrix = nullptr;
      if (make(out, in, weight.data(), 0, bias.data(), format, &matrix)) return 1;
      if (multiply(matrix, rows, x.data(), in, y.data(), out, 0)) return 1;
      reference::multiply(out, in, weight.data(), bias.data(), format, rows, x.data(), in,
                          expected.data(), out, 0);
      agree += std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)) == 0;
    }
  }
  std::printf("%d of 60 products agree\n", agree);
  return agree == 60 ? 0 : 1;
}
