// The words that a drafter chooses among, for each sentence of a batch: few of the vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "product_rows.h"

namespace specdec {

// The logits of a row's masks: `words` of each mask, of the words `ids` in order, or of the whole
// vocabulary where that is null.
struct Rated {
  float* logits;
  int words;
  const int* ids;

  size_t id_of(int word) const { return static_cast<size_t>(ids == nullptr ? word : ids[word]); }
};

// A batch's lists. A row drafts from its own alone, whatever the others' are: their union is only
// what is computed.
class WordList {
 public:
  // ids: the rows' lists one after the other, of sizes[row] words each, ascending and at least one.
  // Throws std::invalid_argument for others.
  void open(std::shared_ptr<const MatrixRows> vocabulary, int rows, const int64_t* sizes,
            const int64_t* ids);
  void close() { vocabulary_.reset(); }
  bool is_open() const { return vocabulary_ != nullptr; }

  // The product with the union of all lists; null where that with the whole vocabulary is faster.
  const Matrix* product() const { return whole_ ? nullptr : &some_; }
  // logits[masks][columns], of a product of product() or of the whole vocabulary, as those of a
  // row's words. They are moved to `scratch` where they do not lie so.
  Rated of_row(int row, int masks, int columns, float* logits, Buffer<float>& scratch) const;

 private:
  std::shared_ptr<const MatrixRows> vocabulary_;
  Matrix some_;
  bool whole_ = false;
  std::vector<size_t> first_;  // [rows + 1], where each list begins
  std::vector<int> ids_;       // of all lists
  std::vector<int> columns_;   // of the product, for each of ids_
};

}  // namespace specdec
