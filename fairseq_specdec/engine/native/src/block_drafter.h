// The non-autoregressive block drafter (Ge et al. 2022, equation 6), with the chain of ChainHead.
// Without layers it is a head on the verifier's hidden states: masks see no tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "source_copy.h"
#include "transformer.h"
#include "verify.h"

namespace specdec {

// s_j = tanh(mask_j + token(y_(j-1)) + W s_(j-1)); a word's logit grows by word . s_j.
struct Chain {
  Matrix of_mask, of_state;
  Buffer<float> of_token;      // [vocabulary][width]
  Buffer<uint16_t> for_token;  // [vocabulary][width], bf16: many are looked up
  int width = 0;               // 0: there is no chain
};

// The hidden layer of blockwise heads (Stern et al. 2018, section 6), which are added to the state.
struct HiddenLayer {
  SharedMatrix product;  // null: there is none
  Activation activation = Activation::kLinear;
};

class BlockDrafter {
 public:
  BlockDrafter(const Stack& stack, const float* mask, int pad, bool lists);

  const Stack& stack;
  Buffer<float> mask;  // [width], the embedding of [MASK], scaled
  int pad;
  bool sees_tokens() const { return stack.shape.layers > 0; }

  // What the verifier's hidden states add to tokens and, after those, to masks; without layers the
  // last of them to each of so many masks; or nothing.
  SharedMatrix of_states;
  HiddenLayer hidden;  // before of_states, without layers
  int read_layers = 0;
  Chain chain;
  std::shared_ptr<const MatrixRows> vocabulary;  // of a drafter with lists of words; or null
};

// How the library drafts: with a block drafter, by copying the source, or greedily, with what is copied
// as a draft of its own.
struct Drafting {
  const BlockDrafter* drafter;  // or null
  Session* session;             // the drafter's
  const SourceCopy* copy;       // or null
  Embedding embedding;
  int64_t block;      // N, most tokens, and those of a row of the answer
  int64_t positions;  // that the drafter knows; -1 for any
  // The verifier's hidden states [B][state_stride][read_layers x width], as of StepOutputs; zeros
  // where nothing predicted a token; null for a drafter that reads none.
  const float* states;
  int64_t state_stride;
  int32_t candidates;  // of each mask that the chain chooses among
  float confidence;    // end a draft before the first token that is less sure than this; 0: never
  // [N + 1], what verifying 0, 1, ... tokens costs, in tokens: a draft ends where those expected
  // to be accepted exceed the cost by most; null for nothing.
  const float* costs;
  int64_t steps;  // most passes of a greedy draft

  // Throws std::invalid_argument for what cannot be drafted for so many rows.
  void check(int rows) const;
  // Drafts tokens [B][N] and sizes [B] after the hypotheses. `rules`: the verifier's, for greedy
  // drafts; or null.
  void propose(const Hypotheses& hypotheses, const Rules* rules, int64_t* tokens,
               int64_t* sizes) const;
};

}  // namespace specdec
