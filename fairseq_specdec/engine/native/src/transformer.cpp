#include "transformer.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "errors.h"

namespace specdec {

// The tokens of a padded batch that are not padding, row by row.
struct Ragged {
  Ragged(int rows, int columns, const uint8_t* hidden) {
    for (int row = 0; row < rows; row++) {
      first.push_back(at.size());
      for (int column = 0; column < columns; column++) {
        const size_t i = static_cast<size_t>(row) * columns + column;
        if (hidden == nullptr || !hidden[i]) at.push_back(i);
      }
    }
    first.push_back(at.size());
  }
  int tokens() const { return static_cast<int>(at.size()); }
  int length(int row) const { return static_cast<int>(first[row + 1] - first[row]); }

  // Their numbers one after the other; `to` may be `from`.
  void gather(const float* from, size_t width, float* to) const {
    for (size_t i = 0; i < at.size(); i++)
      if (from != to || at[i] != i) std::copy_n(from + at[i] * width, width, to + i * width);
  }
  // Back to their places in x [places][width]; padding becomes zeros.
  void scatter(float* x, size_t width, size_t places) const {
    size_t left = at.size();
    while (places-- > left) {
      if (left > 0 && at[left - 1] == places)
        std::copy_n(x + --left * width, width, x + places * width);
      else
        std::fill_n(x + places * width, width, 0.0f);
    }
  }

  std::vector<size_t> first;  // of each row, and their number
  std::vector<size_t> at;     // of each, its place in the batch
};

namespace {

// One sublayer around `body(input, x)`, which adds its result to x: the norm comes first or last.
template <typename Body>
void sublayer(const Shape& shape, const Norm& norm, int tokens, float* x, Scratch& scratch,
              const Body& body) {
  if (shape.pre_norm) {
    float* normed = scratch.normed.reserve(static_cast<size_t>(tokens) * shape.width);
    normalise(norm, tokens, shape.width, x, normed);
    body(normed, x);
    return;
  }
  body(x, x);
  normalise(norm, tokens, shape.width, x, x);
}

void feed_forward(const Stack& stack, const Layer& layer, int tokens, float* x, Scratch& scratch) {
  const Shape& shape = stack.shape;
  const auto activation = static_cast<Activation>(shape.activation);
  const size_t count = static_cast<size_t>(tokens) * shape.inner;
  float* inner = scratch.inner.reserve(count + LANES);  // whole vectors
  sublayer(shape, layer.norms[kInnerNorm], tokens, x, scratch,
           [&](const float* input, float* sum) {
             multiply(*layer.parts[kInner], tokens, input, shape.width, inner, shape.inner,
                      begins_with_relu(activation) ? After::kRelu : After::kStore);
             activate(activation, count, inner);
             multiply(*layer.parts[kOuter], tokens, inner, shape.inner, sum, shape.width,
                      After::kAdd);
           });
}

// The wanted tokens of a block.
class Narrowed {
 public:
  // Move them together in x [tokens][width] and in the queries of fused [tokens][3 width].
  void move(const uint8_t* wanted, size_t width, float* x, float* fused, Block& block) {
    Visibility& visible = block.visible;
    size_t count = 0;
    for (int t = 0; t < block.tokens; t++) {
      if (!wanted[t]) continue;
      std::copy_n(x + t * width, width, x + count * width);
      std::copy_n(fused + t * 3 * width, width, fused + count * 3 * width);
      rows_.push_back(block.row[t]);
      upto_.push_back(visible.upto[t]);
      if (visible.allowed != nullptr) {
        const uint8_t* seen = visible.allowed + t * visible.stride;
        allowed_.insert(allowed_.end(), seen, seen + visible.stride);
      }
      count++;
    }
    block.tokens = static_cast<int>(count);
    block.row = rows_.data();
    visible.upto = upto_.data();
    if (visible.allowed != nullptr) visible.allowed = allowed_.data();
  }

 private:
  std::vector<int> rows_, upto_;
  std::vector<uint8_t> allowed_;
};

// Runs of equal numbers: calls body(first, count).
template <typename Body>
void for_each_run(int count, const int* numbers, const Body& body) {
  for (int first = 0; first < count;) {
    int end = first + 1;
    while (end < count && numbers[end] == numbers[first]) end++;
    body(first, end - first);
    first = end;
  }
}

}  // namespace

Stack::Stack(const Shape& shape) : shape(shape) {
  bounded(shape.layers, 0, "an impossible number of layers");
  for (int size : {shape.width, shape.inner, shape.heads, shape.source, shape.features})
    bounded(size, 1, "a Transformer without width or heads");
  require(shape.width % shape.heads == 0, "the width is no multiple of the number of heads");
  require(shape.activation >= 0 && shape.activation < static_cast<int>(Activation::kCount),
          "an activation of unknown kind");
  require(shape.decoder || !shape.cross, "an encoder that reads encoder states");
  layers.resize(shape.layers);
}

void Stack::set_matrix(int layer, int part, SharedMatrix matrix) {
  require(!finished, "the weights are complete");
  require(part >= 0 && part <= kVocabulary, "a product of unknown kind");
  require(part == kVocabulary || (layer >= 0 && layer < shape.layers), "a layer out of range");
  const MatrixSize size = expected(part);
  require((part == kVocabulary || matrix->out() == size.out) && matrix->in() == size.in,
          "wrong size: product " + std::to_string(part) + " of layer " + std::to_string(layer));
  (part == kVocabulary ? vocabulary : layers[layer].parts[part]) = std::move(matrix);
}

void Stack::set_norm(int layer, int part, Norm norm) {
  require(!finished, "the weights are complete");
  require(part >= 0 && part <= kFinalNorm, "a norm of unknown kind");
  require(part == kFinalNorm || (layer >= 0 && layer < shape.layers), "a layer out of range");
  require(norm.width == shape.width, "wrong size: norm");
  (part == kFinalNorm ? final_norm : layers[layer].norms[part]) = std::move(norm);
}

MatrixSize Stack::expected(int part) const {
  const int width = shape.width;
  const MatrixSize sizes[] = {{3 * width, width},   {width, width},
                              {width, width},       {2 * width, shape.source},
                              {width, width},       {shape.inner, width},
                              {width, shape.inner}, {vocabulary_size(), shape.features}};
  static_assert(sizeof(sizes) / sizeof(*sizes) == kVocabulary + 1, "a size for each part");
  return sizes[part];
}

void Stack::finish() {
  for (const Layer& layer : layers) {
    for (int part = 0; part < kLayerParts; part++) {
      const bool cross = part == kCrossQuery || part == kCrossKeyValue || part == kCrossOut;
      require((layer.parts[part] == nullptr) == (cross && !shape.cross),
              "missing or unexpected: product " + std::to_string(part));
    }
    for (int part = 0; part < kLayerNorms; part++)
      require((layer.norms[part].width == 0) == (part == kCrossNorm && !shape.cross),
              "missing or unexpected: norm");
  }
  finished = true;
}

void Stack::logits(int count, const float* features, float* logits) const {
  require(finished && vocabulary != nullptr, "a stack without a vocabulary");
  multiply(*vocabulary, count, features, vocabulary->in(), logits, vocabulary->out(),
           After::kStore);
}

void Stack::encode(int rows, int source, float* x, const uint8_t* hidden) const {
  static thread_local Scratch scratch;
  const int width = shape.width;
  const Ragged ragged(rows, source, hidden);
  const int tokens = ragged.tokens();
  const size_t size = static_cast<size_t>(tokens) * width;
  ragged.gather(x, width, x);
  float* attended = scratch.attended.reserve(size);
  float* fused = scratch.fused.reserve(3 * size);
  KeyValues cache(shape.heads, head_width());
  cache.make_room(1, source, source);
  for (const Layer& layer : layers) {
    sublayer(shape, layer.norms[kSelfNorm], tokens, x, scratch,
             [&](const float* input, float* sum) {
               multiply(*layer.parts[kSelfQueryKeyValue], tokens, input, width, fused, 3 * width,
                        After::kStore);
               for (int row = 0; row < rows; row++) {
                 const size_t first = ragged.first[row];
                 const int length = ragged.length(row);
                 const float* mine = fused + first * 3 * width;
                 for (int t = 0; t < length; t++)
                   cache.put(0, t, mine + (3 * t + 1) * width, mine + (3 * t + 2) * width);
                 scratch.upto.assign(length, length);
                 const Queries queries{length, mine, size_t{3} * width, attended + first * width};
                 attend(queries, cache, 0, 0, Visibility{scratch.upto.data()}, scratch.attention);
               }
               multiply(*layer.parts[kSelfOut], tokens, attended, width, sum, width, After::kAdd);
             });
    feed_forward(*this, layer, tokens, x, scratch);
  }
  if (final_norm.width > 0) normalise(final_norm, tokens, width, x, x);
  ragged.scatter(x, width, rows * source);
}

void Session::open(int rows, int source, const float* states, const uint8_t* hidden, int capacity) {
  const Shape& shape = stack.shape;
  const int wide = shape.source, head = stack.head_width();
  require(stack.finished && shape.decoder, "the weights are not complete");
  require(rows > 0 && source > 0 && capacity > 0, "an empty batch");
  physical_.clear();
  words_.close();
  for (std::vector<KeyValues>* caches : {&self_, &cross_})
    while (caches->size() < static_cast<size_t>(shape.layers))
      caches->emplace_back(shape.heads, head);
  most_slots_ = std::max(most_slots_, capacity);
  for (KeyValues& cache : self_) cache.make_room(rows, capacity, most_slots_);
  for (KeyValues& cache : cross_)
    if (shape.cross) cache.make_room(rows, source, source);
  capacity_ = self_.empty() ? capacity : self_[0].capacity();
  const Ragged ragged(rows, source, hidden);
  const int tokens = ragged.tokens();
  if (tokens < rows * source && shape.cross) {
    float* kept = scratch_.x.reserve(static_cast<size_t>(tokens) * wide);
    ragged.gather(states, wide, kept);
    states = kept;
  }
  places_.assign(rows, {});
  drafted = {};
  observed_ = 0;
  cached.assign(rows, 0);
  source_.resize(rows);
  for (int row = 0; row < rows; row++) source_[row] = ragged.length(row);
  for (int i = 0; shape.cross && i < shape.layers; i++) write_source(i, ragged, states);
  physical_.resize(rows);
  for (int row = 0; row < rows; row++) physical_[row] = row;
}

void Session::observe(const float* features) {
  constexpr int kOfBatch = 16;
  if (observed.noted == nullptr || *observed.noted >= observed.room || observed_ == kOfBatch) return;
  observed_++;
  const int64_t at = __atomic_fetch_add(observed.noted, 1, __ATOMIC_RELAXED);
  if (at < observed.room)
    std::copy_n(features, stack.shape.width, observed.features + at * stack.shape.width);
}

void Session::open_words(std::shared_ptr<const MatrixRows> vocabulary, const int64_t* sizes,
                         const int64_t* ids) {
  require(rows() > 0 && physical_.size() == source_.size(), "lists of words without their batch");
  words_.open(std::move(vocabulary), rows(), sizes, ids);
}

// Keys and values of encoder states for the cross-attention.
void Session::write_source(int layer, const Ragged& ragged, const float* states) {
  const Matrix& product = *stack.layers[layer].parts[kCrossKeyValue];
  const int tokens = ragged.tokens(), width = stack.shape.width;
  float* fused = scratch_.fused.reserve(static_cast<size_t>(tokens) * 2 * width);
  multiply(product, tokens, states, stack.shape.source, fused, 2 * width, After::kStore);
  for (int row = 0; row < static_cast<int>(source_.size()); row++)
    for (int t = 0; t < source_[row]; t++) {
      const float* keys = fused + (ragged.first[row] + t) * 2 * width;
      cross_[layer].put(row, t, keys, keys + width);
    }
}

void Session::reserve(int capacity) {
  if (capacity <= capacity_ || self_.empty()) {
    capacity_ = std::max(capacity, capacity_);
    return;
  }
  const int slots = std::max(capacity, 2 * capacity_), rows = static_cast<int>(source_.size());
  for (KeyValues& cache : self_) {
    KeyValues grown(stack.shape.heads, stack.head_width());
    grown.make_room(rows, slots, slots);
    grown.copy_from(cache, rows, cache.capacity());
    cache = std::move(grown);
  }
  capacity_ = self_[0].capacity();
  most_slots_ = std::max(most_slots_, capacity_);
}

void Session::select(int count, const int64_t* rows) {
  std::vector<int> kept(count);
  for (int i = 0; i < count; i++) {
    require(rows[i] >= 0 && rows[i] < this->rows() && (i == 0 || rows[i] > rows[i - 1]),
            "rows to keep are not ascending row numbers");
    kept[i] = physical_[rows[i]];
  }
  for (int i = 0; i < count; i++) cached[i] = cached[rows[i]];
  cached.resize(count);
  physical_ = std::move(kept);
}

void Session::note_place(int row, int slot, int place) {
  std::vector<int>& places = places_[physical_[row]];
  while (places.size() <= static_cast<size_t>(slot)) places.push_back(places.size());
  places[slot] = place;
}

int Session::in_order(int row, const uint8_t* marked, int count, int* slots) const {
  const std::vector<int>& places = places_[physical_[row]];
  const auto place = [&](int slot) {
    return slot < static_cast<int>(places.size()) ? places[slot] : slot;
  };
  int kept = 0;
  for (int slot = 0; slot < count; slot++)
    if (marked[slot]) slots[kept++] = slot;
  if (kept == 0) slots[kept++] = 0;
  std::sort(slots, slots + kept, [&](int a, int b) { return place(a) < place(b); });
  return kept;
}

void Session::write(int layer, const Block& block, const float* fused) {
  const int width = stack.shape.width;
  for (int i = 0; i < block.tokens; i++) {
    const float* mine = fused + static_cast<size_t>(i) * 3 * width;
    self_[layer].put(physical_[block.row[i]], block.slot[i], mine + width, mine + 2 * width);
  }
}

void Session::attend(const KeyValues& cache, const Block& block, const Visibility& visible,
                     const float* queries, size_t stride, float* out) {
  for_each_run(block.tokens, block.row, [&](int first, int count) {
    const int row = physical_[block.row[first]], after = first + count;
    const int next = after < block.tokens ? physical_[block.row[after]] : row;
    const Queries mine{count, queries + first * stride, stride,
                       out + static_cast<size_t>(first) * stack.shape.width};
    specdec::attend(mine, cache, row, next, visible.from(first), scratch_.attention);
  });
}

// The second sublayer, with its residual and norm; x: [tokens][width].
void Session::cross_attention(int i, const Block& block, float* x) {
  const Shape& shape = stack.shape;
  const Layer& layer = stack.layers[i];
  const int width = shape.width;
  const size_t size = static_cast<size_t>(block.tokens) * width;
  float* attended = scratch_.attended.reserve(size);
  float* fused = scratch_.fused.reserve(size);
  sublayer(shape, layer.norms[kCrossNorm], block.tokens, x, scratch_,
           [&](const float* query_input, float* sum) {
             multiply(*layer.parts[kCrossQuery], block.tokens, query_input, width, fused, width,
                      After::kStore);
             scratch_.upto.resize(block.tokens);
             for (int t = 0; t < block.tokens; t++)
               scratch_.upto[t] = source_[physical_[block.row[t]]];
             attend(cross_[i], block, Visibility{scratch_.upto.data()}, fused, width, attended);
             multiply(*layer.parts[kCrossOut], block.tokens, attended, width, sum, width,
                      After::kAdd);
           });
}

// Write outputs x [tokens][width] of a layer to the states, if it is read.
void Session::keep(int layer, const Block& block, const float* x, const RunExtras& extras) const {
  const size_t width = stack.shape.width, count = extras.read.size();
  for (size_t n = 0; n < count; n++)
    if (extras.read[n] == layer)
      for (int i = 0; i < block.tokens; i++)
        std::copy_n(x + i * width, width, extras.states + (i * count + n) * width);
}

void Session::run(const Block& whole, const float* embedded, float* features,
                  const RunExtras& extras) {
  const Shape& shape = stack.shape;
  const int width = shape.width, final = shape.layers;
  require(final > 0 || extras.wanted == nullptr, "some tokens of a stack without layers");
  Block block = whole;
  const size_t size = static_cast<size_t>(block.tokens) * width;
  float* x = scratch_.x.reserve(size);
  float* normed = scratch_.normed.reserve(size);
  float* attended = scratch_.attended.reserve(size);
  float* fused = scratch_.fused.reserve(3 * size);
  std::copy_n(embedded, size, x);
  Narrowed narrowed;
  for (int i = 0; i < final; i++) {
    const Layer& layer = stack.layers[i];
    if (shape.pre_norm) normalise(layer.norms[kSelfNorm], block.tokens, width, x, normed);
    multiply(*layer.parts[kSelfQueryKeyValue], block.tokens, shape.pre_norm ? normed : x, width,
             fused, 3 * width, After::kStore);
    write(i, block, fused);
    if (extras.wanted != nullptr && i + 1 == final) {
      narrowed.move(extras.wanted, width, x, fused, block);  // the others do not matter any more
      if (block.tokens == 0) return;
    }
    attend(self_[i], block, block.visible, fused, 3 * static_cast<size_t>(width), attended);
    multiply(*layer.parts[kSelfOut], block.tokens, attended, width, x, width, After::kAdd);
    if (!shape.pre_norm) normalise(layer.norms[kSelfNorm], block.tokens, width, x, x);
    if (shape.cross) cross_attention(i, block, x);
    feed_forward(stack, layer, block.tokens, x, scratch_);
    if (i + 1 < final) keep(i + 1, block, x, extras);
  }
  if (stack.final_norm.width > 0)
    normalise(stack.final_norm, block.tokens, width, x, features);
  else
    std::copy_n(x, static_cast<size_t>(block.tokens) * width, features);
  keep(final, block, features, extras);  // the last layer's, after the final norm
}

}  // namespace specdec
