// Tokens that greedy search chooses among for some steps: before one product of the whole vocabulary
// over all of them decides what was right.
//
// The verifier drafts for itself (as Shim et al. 2017 and FR-Spec, Zhao et al. 2025, read a part of
// the vocabulary): no layer runs twice, and since a product gives an output the same bits at any
// number of rows, tokens and scores are those of plain greedy search to the last bit.
#pragma once

#include <cstdint>
#include <vector>

#include "product_rows.h"

namespace specdec {

class VocabularyList {
 public:
  // `most`: tokens that the list may have besides these; then half of them go, those that were not
  // used for longest.
  VocabularyList(SharedMatrix vocabulary, int64_t count, const int64_t* tokens, int most);

  // It is used: it joins the list, unless it is there. Throws std::invalid_argument for a token that
  // the vocabulary has not.
  void add(int64_t token);
  const Matrix& product() const { return chosen_.matrix(); }
  const std::vector<int64_t>& tokens() const { return tokens_; }

 private:
  void make_room();

  ChosenOutputs chosen_;
  std::vector<int> place_;       // of each token of the vocabulary
  std::vector<int64_t> used_;    // of each token of the vocabulary: when it was used last
  std::vector<int64_t> tokens_;  // in the order of the product's outputs
  size_t first_ = 0;             // that it began with
  size_t most_;
  int64_t clock_ = 0;
};

// A row's likeliest tokens by the vocabulary's product in few dimensions, as in SVD-softmax (Shim et
// al. 2017).
class VocabularyPreview {
 public:
  // projection: [dimensions][width]; narrow: [vocabulary][dimensions], of what it gives. Throws
  // std::invalid_argument for matrices of other sizes.
  VocabularyPreview(SharedMatrix vocabulary, SharedMatrix projection, SharedMatrix narrow,
                    int likeliest);

  // Finds so many tokens that look likeliest after features [width].
  void find(const float* features);

  const Matrix& product() const { return chosen_.matrix(); }
  const std::vector<int64_t>& tokens() const { return tokens_; }

 private:
  ChosenOutputs chosen_;
  SharedMatrix projection_, narrow_;
  int likeliest_;
  std::vector<int64_t> tokens_;  // in the order of the product's outputs
};

// How many steps a window has, by how many tokens those of each size gave in a second.
class WindowPlanner {
 public:
  static constexpr int kMostRows = 8;  // of more, steps take their time to compute
  static constexpr int kSizes = 5;     // 1, 2, 4, 8 and 16 steps
  // Steps of the next window of so many rows, kMostRows at most, or with 0 the entries of one with
  // drafts, of a lone row; 1 for plain search. `most_sizes`: that are tried.
  int plan(int rows, int most_sizes = kSizes);
  // A window that was planned for so many steps ran some of them, which gave a row so many tokens.
  void observe(int rows, int planned, int steps, int64_t tokens, double seconds);
  // Whether a window ends where the list's best token has less than half of its probability: where
  // enough of such tokens were wrong.
  bool ends_unsure() const { return unsure_missed_ > kMostMissed; }
  void observe_unsure(bool missed) { unsure_missed_ += kForgets * (missed - unsure_missed_); }

 private:
  static constexpr double kMostMissed = 0.1, kForgets = 0.05;
  struct Size {
    int seen = 0;
    double tokens = 0, seconds = 0;  // older ones count less
    double least = 0;                // seconds of a step
    double rate() const { return tokens / seconds; }
  };
  struct Sizes {
    Size of[kSizes];
    int windows = 0, between = 64;  // since the last try of a size that is not the best; to the next
    int tried = 0;
  };

  Sizes sizes_[kMostRows + 1];
  double unsure_missed_ = 0;
};

}  // namespace specdec
