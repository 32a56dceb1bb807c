// One iteration of greedy search: score the drafts of all rows, accept, and emit.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "transformer.h"
#include "vocabulary.h"

namespace specdec {

// A table of token embeddings and one of positions; the caller keeps both.
struct Embedding {
  const float* tokens;         // [vocabulary][width], or null:
  const SharedMatrix* packed;  // the same numbers, packed
  const float* positions;      // [places][width], or null; later positions get the last row
  int64_t vocabulary, places;
  int64_t width;
  float scale;  // of the tokens' embeddings

  bool fits(const Stack& stack) const;
  // out[width]. Throws std::invalid_argument for a token out of range.
  void embed(int64_t token, int64_t position, float* out) const;
};

// The constraints of decoding that need no look at the hypothesis (DecodingConstraints), and the
// rule.
struct Rules {
  int32_t pad, unk, eos;
  int32_t min_len, max_len;
  float unk_penalty, temperature;
  int32_t top_beta;  // 1: a draft token must be the best one (ExactRule)
  float tau;
  // [B][prefix_width], tokens that outputs must begin with, pad for any; or null
  const int64_t* prefix;
  int64_t prefix_width;
  const int64_t* limits;  // [B], most tokens of each row before </s>; or null: all have max_len

  // Throws std::invalid_argument for a symbol or a token that is none of `words`.
  void check(int rows, int words) const;
};

// Most tokens of a row before </s>.
inline int64_t limit_of(const Rules& rules, int row) {
  return rules.limits == nullptr ? rules.max_len : rules.limits[row];
}

// The token of a row's prefix that must be output token number `step`; -1 where any may be.
inline int64_t prefix_token(const Rules& rules, int row, int64_t step) {
  if (step >= rules.prefix_width || step >= limit_of(rules, row)) return -1;
  const int64_t token = rules.prefix[row * rules.prefix_width + step];
  return token == rules.pad || token < 0 ? -1 : token;
}

// The same of all constraints: at the length limit only </s> may follow.
inline int64_t forced_token(const Rules& rules, int row, int64_t step) {
  return step >= limit_of(rules, row) ? rules.eos : prefix_token(rules, row, step);
}

// By the temperature.
inline void divide(const Rules& rules, int count, float* logits) {
  if (rules.temperature == 1.0f) return;
  for (int i = 0; i < count; i++) logits[i] /= rules.temperature;
}

// Of output token number `step`: single logits change, and are not normalised again.
inline void constrain(const Rules& rules, int64_t step, float* logits) {
  logits[rules.pad] = kMinusInfinity;
  // Stock asks for no least length where a prefix of the batch may reach.
  if (step < rules.min_len && step >= rules.prefix_width) logits[rules.eos] = kMinusInfinity;
  logits[rules.unk] -= rules.unk_penalty;
}

struct Drafts {
  int64_t rows, width;    // B, N
  const int64_t* tokens;  // [B][N]
  const int64_t* sizes;   // [B]
};

struct Hypotheses {
  int64_t columns;         // of tokens and scores
  int64_t* tokens;         // [B][columns], column 0 the start symbol
  float* scores;           // [B][columns]
  const int64_t* lengths;  // [B], tokens after the start symbol
};

struct StepOutputs {
  // [iterations][B][4]: tokens emitted, whether the row ended, draft tokens accepted, and verified
  int64_t* outcomes;
  int64_t* drafts;   // [iterations][B][N], those made between verifications; null: they are given
  int64_t* choices;  // [iterations][B][N + 1], best tokens of the entries reached; or null
  double* seconds;   // [iterations][2], of the draft and of its verification
  // [B][state_stride][read layers x width], or null: entry c is the hidden state that predicted the
  // token in column c of the hypothesis
  float* states;
  int64_t state_stride;
};

// Drafts tokens [B][N] and sizes [B] for the next iteration.
typedef std::function<void(const Hypotheses&, int64_t* tokens, int64_t* sizes)> Propose;

// What iterations work on, and where their results go.
struct Verification {
  Embedding embedding;
  Rules rules;
  Drafts drafts;
  Hypotheses hypotheses;
  std::vector<int> read;  // layers whose outputs are wanted
  StepOutputs outputs;
};

// Iterations until a row ends, at most so many, each after what the last one emitted. More than one
// either drafts nothing or asks `propose` each time, whose drafts are cut to the rows' limits. Returns
// how many were done. It ends before one in which an entry that decides has two best tokens or none:
// the caller decides that by other means, with the draft, whose outcomes are its sizes alone.
//
// Where nothing is drafted and the session has a list of tokens or a preview, or drafts of one row and a
// list alone, steps choose by them until `window` entries of a row are reached, before one product of
// the whole vocabulary decides: 0 for plain search, -1 for as many as pay. `windows` becomes the number
// of these products.
int verify(Session& session, Verification call, const Propose& propose, int max_iterations,
           int window, int64_t& windows);

// Of this thread: what is planned is judged by work, which other programs do not change much.
double cpu_seconds();

}  // namespace specdec
