// The non-autoregressive block drafter (Ge et al. 2022, equation 6), with the chain of ChainHead.
// Without layers it is a head on the verifier's hidden states: masks see no tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "source_copy.h"
#include "transformer.h"
#include "verify.h"
#include "word_list.h"

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
  BlockDrafter(const Stack& stack, const float* mask, int pad);

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

struct DraftRequest {
  int64_t masks;          // K
  int64_t first;          // position of the first token: 1 after a start symbol
  const int64_t* cached;  // [B], slots that the drafter's cache holds
  // The verifier's hidden states [B][state_stride][read_layers x width], as of StepOutputs; zeros
  // where nothing predicted a token; null for a drafter that reads none.
  const float* states;
  int64_t state_stride;
  int32_t candidates;    // of each mask that the chain chooses among
  float confidence;      // end a draft before the first token that is less sure than this; 0: never
  // [masks + 1], what verifying 0, 1, ... tokens costs, in tokens: a draft ends where those expected
  // to be accepted exceed the cost by most; null for nothing.
  const float* costs;
  int64_t token_stride;  // of the answer, K or more
  const WordList* words;  // of the session's rows; null: any word is drafted

  void check() const;  // throws std::invalid_argument for what no draft begins with
  // The state that predicted a row's last token. Throws std::invalid_argument: it is out of range.
  const float* last_state(const Hypotheses& hypotheses, int row, int wide) const;
};

// A draft after the hypotheses, and where its tokens [B][token_stride] and sizes [B] go.
struct DraftCall {
  Embedding embedding;
  Hypotheses hypotheses;
  DraftRequest request;
  int64_t* tokens;
  int64_t* sizes;

  // Throws std::invalid_argument for what this drafter cannot draft for this session.
  void check(const BlockDrafter& drafter, const Session& session) const;
};

void draft(const BlockDrafter& drafter, Session& session, const DraftCall& call);

// Drafts of several iterations: of a block drafter, or copied from the source.
struct DraftLoop {
  Embedding embedding;
  DraftRequest request;  // of the first draft, but for masks; its answer's stride is block
  int64_t block, max_len, positions, whole, row_independent;  // MaskLimits; positions may be -1
  // DraftBudget: running means of a row, the newest's weight, and the chances from low to below high
  // for which the plan holds; the loop ends where it does not.
  double accepted, stopped, forgets, low, high;
  int64_t* cached;                 // [B], before and after
  int64_t* tokens;                 // [iterations][B][block]
  int64_t* sizes;                  // [iterations][B]
  double* seconds;                 // [iterations]
  const SourceCopy* copy;          // null: a block drafter drafts
  int64_t drafts;                  // the answer: how many were made
};

// A `Propose` that drafts, and learns from what became of its drafts.
class Proposer {
 public:
  // drafter, session: of a block drafter, or null. rules: those by which drafts are verified.
  Proposer(const BlockDrafter* drafter, Session* session, int rows, DraftLoop& loop,
           const StepOutputs& outputs, const Rules& rules)
      : drafter_(drafter),
        session_(session),
        rows_(rows),
        loop_(loop),
        outputs_(outputs),
        rules_(rules) {}

  bool operator()(const Hypotheses& hypotheses, Drafts* drafts);

 private:
  int64_t masks(const Hypotheses& hypotheses) const;
  bool learn();
  void run_drafter(const Hypotheses& hypotheses, int64_t masks, int64_t* tokens, int64_t* sizes);

  const BlockDrafter* drafter_;
  Session* session_;
  const int rows_;
  DraftLoop& loop_;
  const StepOutputs& outputs_;
  const Rules& rules_;
};

}  // namespace specdec
