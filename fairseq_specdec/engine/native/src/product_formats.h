// What the number formats do differently in a product: how a row of x is written in words, and what
// one word of it adds to the sums of a register's outputs.
#pragma once

#include "register.h"
#include "simd.h"

namespace specdec {

// A row of x as a kernel reads it: `words()` words for each word of the weights.
struct Float32 {
  typedef FloatRegister Sums;
  typedef FloatRegister X;  // a word of x in every lane
  typedef FloatRegister W;  // a word of each output
  static constexpr int kWordsOfX = 1;

  static Sums start(const float* bias) { return load_floats(bias); }
  static X read_x(const uint32_t* x) { return splat_float(*x); }
  static W read_w(const uint32_t* w) { return as_floats(load_words(w)); }
  static Sums add_product(Sums sums, X x, W w) { return fused(x, w, sums); }
  static FloatRegister finish(Sums sums) { return sums; }
};

}  // namespace specdec
