#include "vocabulary_list.h"

#include <algorithm>
#include <utility>

#include "errors.h"
#include "vocabulary.h"

namespace specdec {

VocabularyList::VocabularyList(SharedMatrix vocabulary, int64_t count, const int64_t* tokens,
                               int most)
    : chosen_(vocabulary), place_(vocabulary->out(), -1), used_(vocabulary->out()), most_(most) {
  for (int64_t i = 0; i < count; i++) add(tokens[i]);
  first_ = tokens_.size();
}

void VocabularyList::add(int64_t token) {
  require(token >= 0 && token < static_cast<int64_t>(used_.size()),
          "a token that is not in the vocabulary");
  used_[token] = ++clock_;
  if (place_[token] >= 0) return;
  if (first_ > 0 && tokens_.size() >= first_ + most_) make_room();
  chosen_.append(static_cast<int>(token));
  place_[token] = static_cast<int>(tokens_.size());
  tokens_.push_back(token);
}

void VocabularyList::make_room() {
  const auto more = tokens_.begin() + first_;
  const size_t kept = most_ / 2;
  std::nth_element(more, more + kept, tokens_.end(),
                   [&](int64_t a, int64_t b) { return used_[a] > used_[b]; });
  for (auto each = more + kept; each != tokens_.end(); ++each) place_[*each] = -1;
  tokens_.resize(first_ + kept);
  chosen_.clear();
  for (size_t i = 0; i < tokens_.size(); i++) {
    chosen_.append(static_cast<int>(tokens_[i]));
    place_[tokens_[i]] = static_cast<int>(i);
  }
}

VocabularyPreview::VocabularyPreview(SharedMatrix vocabulary, SharedMatrix projection,
                                     SharedMatrix narrow, int likeliest)
    : chosen_(std::move(vocabulary)),
      projection_(std::move(projection)),
      narrow_(std::move(narrow)),
      likeliest_(likeliest) {
  require(projection_->in() == chosen_.whole().in() && narrow_->in() == projection_->out() &&
              narrow_->out() == chosen_.whole().out(),
          "a preview of another vocabulary");
}

void VocabularyPreview::find(const float* features) {
  static thread_local Buffer<float> scratch, logits;
  const int width = projection_->in(), dimensions = projection_->out(), words = narrow_->out();
  float* x = scratch.reserve(dimensions);
  float* about = logits.reserve(words);
  multiply(*projection_, 1, features, width, x, dimensions, After::kStore);
  multiply(*narrow_, 1, x, dimensions, about, words, After::kStore);
  static thread_local std::vector<int> best;
  best_few(about, words, likeliest_, best);
  tokens_.assign(best.begin(), best.end());
  chosen_.clear();
  for (int token : best) chosen_.append(token);
}

namespace {

// Most entries of a product: windows of more are not tried.
constexpr int kMostEntries = 64;
// Windows of a size that are timed before it is judged, and windows between two tries of others:
// twice as many each time where plain search was better.
constexpr int kTries = 3, kBetweenTries = 64, kMostBetweenTries = 4096;
// What is left of what was seen before.
constexpr double kRemembers = 0.97;
// What takes so many times as long as it can was disturbed.
constexpr double kDisturbed = 1.5;
// Windows must promise so many times as much as plain search.
constexpr double kPays = 1.03;

}  // namespace

int WindowPlanner::plan(int rows, int most_sizes) {
  Sizes& sizes = sizes_[rows];
  // Longer windows are not tried where shorter ones did not pay.
  int best = 0, size = 0;
  for (; size < most_sizes && (rows << size) <= kMostEntries && best >= size - 2; size++) {
    const Size& one = sizes.of[size];
    if (one.seen < kTries) return 1 << size;
    if (one.rate() > (best == 0 ? kPays : 1) * sizes.of[best].rate()) best = size;
  }
  if (++sizes.windows < sizes.between) return 1 << best;
  sizes.windows = 0;
  sizes.between = best > 0 ? kBetweenTries : std::min(2 * sizes.between, kMostBetweenTries);
  sizes.tried = (sizes.tried + 1) % size;
  return 1 << sizes.tried;
}

void WindowPlanner::observe(int rows, int planned, int steps, int64_t tokens, double seconds) {
  if (tokens == 0) return;
  int size = 0;
  while ((2 << size) <= planned) size++;
  if ((1 << size) != planned) return;  // what was left to the length limit
  Size& one = sizes_[rows].of[size];
  const double step = seconds / steps;
  if (one.seen++ == 0 || step < one.least) one.least = step;
  // Drafts of other lengths take other times.
  const double most = rows > 0 ? kDisturbed * one.least : step;
  one.tokens = kRemembers * one.tokens + tokens;
  one.seconds = kRemembers * one.seconds + std::min(step, most) * steps;
}

}  // namespace specdec
