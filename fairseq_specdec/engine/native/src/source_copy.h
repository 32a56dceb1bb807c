// Drafts that are copied from the source: Input-guided Aggressive Decoding (Ge et al. 2022, 3.1).
#pragma once

#include <cstdint>

#include "verify.h"

namespace specdec {

// The sources of a batch, and how to draft from them (InputCopyDrafter).
struct SourceCopy {
  int64_t rows;           // live ones
  const int64_t* origin;  // [rows], their numbers in the batch
  const int64_t* tokens;  // of each row of the batch the start symbol, the sentence and its </s>
  const int64_t* ends;    // of each row of the batch: where these end
  int64_t max_suffix;     // longest suffix matched, in tokens; 0 for any
  int64_t times;          // at most so many times as many tokens are copied as match; 0 for any

  void check(int rows) const;  // throws std::invalid_argument for impossible sizes
};

// As InputCopySession.draft, for every row: drafts[B][max_tokens], sizes[B].
void copy_source(const SourceCopy& copy, const Hypotheses& hypotheses, int64_t max_tokens,
                 int64_t* drafts, int64_t* sizes);

}  // namespace specdec
