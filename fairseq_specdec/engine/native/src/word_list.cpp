#include "word_list.h"

#include <algorithm>

#include "errors.h"

namespace specdec {

namespace {

// From a third of the vocabulary on, packing a batch's words takes longer than its drafts gain.
constexpr size_t kLeastGain = 3;

}  // namespace

void WordList::open(std::shared_ptr<const MatrixRows> vocabulary, int rows, const int64_t* sizes,
                    const int64_t* ids) {
  require(vocabulary != nullptr, "a drafter that drafts from no list of words");
  const int words = vocabulary->out();
  close();  // until all is well, no draft takes these lists
  first_.assign(1, 0);
  ids_.clear();
  for (int row = 0; row < rows; row++) {
    require(sizes[row] > 0 && sizes[row] <= words, "a list of no words, or of too many");
    for (int64_t i = 0; i < sizes[row]; i++, ids++) {
      require(*ids >= 0 && *ids < words && (i == 0 || *ids > ids_.back()),
              "words that do not ascend, or are not in the vocabulary");
      ids_.push_back(static_cast<int>(*ids));
    }
    first_.push_back(ids_.size());
  }
  std::vector<int> all = ids_;
  if (rows > 1) {
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
  }
  whole_ = all.size() * kLeastGain > static_cast<size_t>(words);
  columns_ = ids_;
  if (!whole_) {
    vocabulary->gather(all, some_);
    for (int& id : columns_)
      id = static_cast<int>(std::lower_bound(all.begin(), all.end(), id) - all.begin());
  }
  vocabulary_ = std::move(vocabulary);
}

Rated WordList::of_row(int row, int masks, int columns, float* logits,
                       Buffer<float>& scratch) const {
  const size_t first = first_[row];
  const int count = static_cast<int>(first_[row + 1] - first);
  const int* ids = ids_.data() + first;
  if (count == columns) return {logits, count, ids};
  const int* from = columns_.data() + first;
  float* mine = scratch.reserve(static_cast<size_t>(masks) * count);
  for (int mask = 0; mask < masks; mask++, logits += columns)
    for (int i = 0; i < count; i++) mine[static_cast<size_t>(mask) * count + i] = logits[from[i]];
  return {mine, count, ids};
}

}  // namespace specdec
