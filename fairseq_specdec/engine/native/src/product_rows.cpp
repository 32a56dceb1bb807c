#include "product_rows.h"

#include <algorithm>

#include "errors.h"

namespace specdec {

MatrixRows::MatrixRows(SharedMatrix whole) : whole_(std::move(whole)) {
  const Matrix& from = *whole_;
  const int steps = from.steps();
  words_ = Buffer<uint32_t>(static_cast<size_t>(from.out()) * steps);
  uint32_t* to = words_.data();
  for (int o = 0; o < from.out(); o++, to += steps) {
    if (from.format() == Format::kHalf) {
      const uint16_t* halves = reinterpret_cast<const uint16_t*>(from.words(0));
      for (int k = 0; k < from.in(); k++)
        to[k / 2] |= static_cast<uint32_t>(halves[from.half(o, k)]) << k % 2 * 16;
      continue;
    }
    const uint32_t* column = from.words(o / Matrix::kPanel) + o % Matrix::kPanel;
    for (int k = 0; k < steps; k++) to[k] = column[static_cast<size_t>(k) * Matrix::kPanel];
  }
}

namespace {

constexpr int kPanel = Matrix::kPanel;

// Word k of each of a panel's outputs.
void write_words(const uint32_t* const* rows, int k, uint32_t* line) {
  for (int o = 0; o < kPanel; o++) line[o] = rows[o][k];
}

// The same of halves: for each register of outputs the even ones, then the odd ones (Matrix::half).
void write_halves(const uint32_t* const* rows, int k, uint32_t* line) {
  uint16_t* to = reinterpret_cast<uint16_t*>(line);
  for (int o = 0; o < kPanel; o += kWidth, to += 2 * kWidth) {
    for (int i = 0; i < kWidth; i++) {
      const uint32_t pair = rows[o + i][k];
      to[i] = static_cast<uint16_t>(pair);
      to[kWidth + i] = static_cast<uint16_t>(pair >> 16);
    }
  }
}

}  // namespace

void MatrixRows::gather(const std::vector<int>& numbers, Matrix& some) const {
  const Matrix& whole = *whole_;
  require(!numbers.empty() && numbers.size() <= static_cast<size_t>(whole.out()),
          "no rows to gather, or more than there are");
  for (int number : numbers)
    require(number >= 0 && number < whole.out(), "row index out of range");
  some.format_ = whole.format_;
  some.in_ = whole.in_;
  some.steps_ = whole.steps_;
  some.out_ = static_cast<int>(numbers.size());
  const size_t outputs = static_cast<size_t>(some.panels()) * kPanel, steps = whole.steps_;
  some.words_.reserve(outputs * steps);
  some.bias_.reserve(outputs);
  const bool bytes = in_bytes(whole.format_);
  if (bytes) {
    some.scales_.reserve(outputs);
    some.offsets_.reserve(outputs);
  }
  const uint32_t* rows[kPanel];
  for (size_t first = 0; first < outputs; first += kPanel) {
    for (int o = 0; o < kPanel; o++) {
      // The last panel is filled up with the last row: what it gives is stored nowhere.
      const int from = numbers[std::min(first + o, numbers.size() - 1)];
      rows[o] = words_.data() + from * steps;
      some.bias_.data()[first + o] = whole.bias_.data()[from];
      if (!bytes) continue;
      some.scales_.data()[first + o] = whole.scales_.data()[from];
      some.offsets_.data()[first + o] = whole.offsets_.data()[from];
    }
    uint32_t* line = some.words_.data() + first * steps;
    const auto write = whole.format_ == Format::kHalf ? write_halves : write_words;
    for (size_t k = 0; k < steps; k++, line += kPanel) write(rows, static_cast<int>(k), line);
  }
}

namespace {

// Room for so many numbers, and what is there already.
template <typename T>
void grow(Buffer<T>& buffer, size_t count) {
  Buffer<T> larger(count);
  std::copy_n(buffer.data(), buffer.size(), larger.data());
  buffer = std::move(larger);
}

}  // namespace

void ChosenOutputs::append(int output) {
  const Matrix& whole = *whole_;
  require(output >= 0 && output < whole.out(), "an output out of range");
  some_.format_ = whole.format_;
  some_.in_ = whole.in_;
  some_.steps_ = whole.steps_;
  const int at = some_.out_++;
  const size_t steps = whole.steps_, room = some_.bias_.size();
  if (static_cast<size_t>(at) == room) {
    const size_t outputs = std::max<size_t>(8 * kPanel, 2 * room);
    grow(some_.words_, outputs * steps);
    grow(some_.bias_, outputs);
    grow(some_.scales_, in_bytes(whole.format_) ? outputs : 0);
    grow(some_.offsets_, in_bytes(whole.format_) ? outputs : 0);
  }
  some_.bias_.data()[at] = *whole.bias(output);
  if (in_bytes(whole.format_)) {
    some_.scales_.data()[at] = *whole.scales(output);
    some_.offsets_.data()[at] = *whole.offsets(output);
  }
  if (whole.format_ == Format::kHalf) {
    const uint16_t* from = reinterpret_cast<const uint16_t*>(whole.words_.data());
    uint16_t* to = reinterpret_cast<uint16_t*>(some_.words_.data());
    for (int k = 0; k < whole.in_; k++) to[some_.half(at, k)] = from[whole.half(output, k)];
    return;
  }
  const uint32_t* from = whole.words(output / kPanel) + output % kPanel;
  uint32_t* to = some_.words_.data() + (at / kPanel * steps) * kPanel + at % kPanel;
  for (size_t k = 0; k < steps; k++) to[k * kPanel] = from[k * kPanel];
}

}  // namespace specdec
