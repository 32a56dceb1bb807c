// Beam search as in fairseq (SequenceGenerator, BeamSearch.step), over a tree of scored prefixes.
//
// A step is decided once the live prefixes that matter are scored; it does not matter which others
// were. All prefixes of a sentence lie in one row of the cache, in any order: each sees the slots of
// those it begins with. decoding/beam/replay.py is the same in Python.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "transformer.h"
#include "verify.h"

namespace specdec {

// A prefix of outputs: its last token, and the prefix before.
struct Prefix {
  int32_t token, parent, depth;  // parent: index, -1 for the root; depth: tokens after the start
  int32_t slot = -1;             // in the cache; -1 before it is scored and when it was dropped
  int32_t first_child = -1, next_sibling = -1;
  float score = 0;  // log-probability; known once it was live
  bool scored = false;
};

struct Ended {
  int32_t prefix;  // its last token before </s>
  float score;     // log-probability, </s> included
};

enum class Failure { kNone = 0, kNoNumber = 1, kNoToken = 2 };

class Sentence {
 public:
  Sentence(const Rules& rules, int beam, int32_t start);

  int step() const { return prefixes[live[0]].depth; }
  // The prefix of one token more, made if it is not there.
  int child(int prefix, int32_t token);
  // Give slots to prefixes without one; those before them come first.
  void place(const std::vector<int>& chosen);
  // Do all steps that are decided; returns how many.
  int advance();
  // What may follow a prefix: the 2 N likeliest tokens, falling.
  float* best_scores(int prefix) { return &best_scores_[static_cast<size_t>(prefix) * count_]; }
  int32_t* best_tokens(int prefix) { return &best_tokens_[static_cast<size_t>(prefix) * count_]; }
  // Which slots a placed prefix sees, one byte each; slots() of them count.
  const uint8_t* seen(int prefix) const {
    return &seen_[static_cast<size_t>(prefixes[prefix].slot) * capacity_];
  }
  int slots() const { return slots_; }

  std::vector<Prefix> prefixes;
  std::vector<int> live;   // that have not ended, best first
  std::vector<int> drafted;  // not scored yet, those before them first
  std::vector<Ended> ended;  // in the order in which they did
  bool done = false;
  Failure failure = Failure::kNone;
  int64_t passes = 0, steps = 0;

 private:
  bool one_step();
  void follow(const std::vector<int>& chosen);
  void drop(int prefix);
  void release(int prefix);
  void unlink(int prefix);
  void give(int prefix);

  const Rules* rules_;
  int beam_, count_;  // N, 2 N
  int slots_ = 0, capacity_ = 0;
  std::vector<float> best_scores_;
  std::vector<int32_t> best_tokens_;
  std::vector<uint8_t> seen_;  // [capacity][capacity], by slot
  std::priority_queue<int, std::vector<int>, std::greater<int>> free_;
};

class Beams {
 public:
  // The session was opened for the batch and stays until the search is over.
  Beams(Session& session, const Embedding& embedding, const Rules& rules, int beam, int32_t start);

  // Passes of the model until nothing is left, at most so many; returns how many were done. It ends
  // early where a sentence fails.
  int64_t run(int64_t most);
  // Draft tokens that follow a live hypothesis.
  void draft(int row, int hypothesis, int count, const int64_t* tokens);

  std::vector<Sentence> sentences;

 private:
  bool pass();

  Session& session_;
  Embedding embedding_;
  Rules rules_;
  int beam_;
};

}  // namespace specdec
