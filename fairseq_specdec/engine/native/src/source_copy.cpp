#include "source_copy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "errors.h"

namespace specdec {

namespace {

struct Text {
  const int64_t* tokens;
  int64_t size;
};

// How many tokens up to each source column equal the last ones of a suffix: the prefix lengths of
// the reversed text (Z algorithm), in linear time, where a suffix comes first and then a source.
class Matched {
 public:
  Matched(Text source, Text suffix) : source_(source), suffix_(suffix) {
    const int64_t count = suffix.size + source.size;
    sizes_.assign(count, 0);
    int64_t left = 0, right = 0;  // at(left .. right) equals the beginning, and ends furthest
    for (int64_t i = 1; i < count; i++) {
      int64_t size = i < right ? std::min(right - i, sizes_[i - left]) : 0;
      const int64_t end = std::min(suffix.size, i < suffix.size ? suffix.size - i : count - i);
      size = std::min(size, end);
      while (size < end && at(size) == at(i + size)) size++;
      if (i + size > right) left = i, right = i + size;
      sizes_[i] = size;
    }
  }

  int64_t at_column(int64_t column) const {
    return sizes_[suffix_.size + source_.size - 1 - column];
  }

 private:
  int64_t at(int64_t i) const {
    return i < suffix_.size ? suffix_.tokens[suffix_.size - 1 - i]
                            : source_.tokens[source_.size - 1 - (i - suffix_.size)];
  }

  const Text source_, suffix_;
  std::vector<int64_t> sizes_;
};

// As unique_place, and the tokens that match before it; -1 for none.
std::pair<int64_t, int64_t> unique_place(Text source, Text suffix) {
  const Matched matched(source, suffix);
  int64_t longest = 0, place = -1;
  bool alone = true;
  for (int64_t column = 0; column + 1 < source.size; column++) {  // something is left to copy
    const int64_t size = matched.at_column(column);
    if (size > longest) longest = size, place = column + 1, alone = true;
    else if (size == longest) alone = false;
  }
  return {longest > 0 && alone ? place : -1, longest};
}

}  // namespace

void SourceCopy::check(int batch) const {
  require(rows == batch, "sources of another number of rows");
  bounded(max_suffix, 0, "a suffix of impossible length");
  bounded(times, 0, "a copy of impossible length");
  for (int live = 0; live < batch; live++) {
    const int row = bounded(origin[live], 0, "a row of an impossible number");
    const int first = row == 0 ? 0 : bounded(ends[row - 1], 0, "a source of impossible length");
    bounded(ends[row], first + 1, "a source of impossible length");
  }
}

void copy_source(const SourceCopy& copy, const Hypotheses& hypotheses, int64_t max_tokens,
                 int64_t* drafts, int64_t* sizes) {
  for (int64_t live = 0; live < copy.rows; live++, drafts += max_tokens) {
    const int64_t row = copy.origin[live], first = row == 0 ? 0 : copy.ends[row - 1];
    const Text source{copy.tokens + first, copy.ends[row] - first};
    const int64_t length = bounded(hypotheses.lengths[live], 0, "impossible lengths");
    require(length < hypotheses.columns, "a hypothesis is larger than its buffer");
    const int64_t* output = hypotheses.tokens + live * hypotheses.columns;
    int64_t size = length + 1;
    if (copy.max_suffix > 0) size = std::min(size, copy.max_suffix);
    const auto [place, matched] = unique_place(source, {output + length + 1 - size, size});
    const int64_t most = copy.times > 0 ? std::min(copy.times * matched, max_tokens) : max_tokens;
    sizes[live] = place < 0 ? 0 : std::max<int64_t>(0, std::min(source.size - place, most));
    if (sizes[live] > 0) std::copy_n(source.tokens + place, sizes[live], drafts);
  }
}

}  // namespace specdec
