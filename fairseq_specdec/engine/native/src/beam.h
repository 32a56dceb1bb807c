// Beam search as in fairseq (SequenceGenerator, BeamSearch.step), over a tree of scored prefixes.
//
// A step is decided once the live prefixes that matter are scored; it does not matter which others
// were. All prefixes of a sentence lie in one row of the cache, in any order: each sees the slots
// of those it begins with. decoding/beam/replay.py is the same in Python, without looking ahead.
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

// How the next prefixes are predicted: the search runs ahead, and what follows a prefix that is not
// scored is taken from the scored one with the longest common suffix, else from the source. The
// prefixes that it comes to live on are scored with those that the search waits for.
struct Lookahead {
  std::vector<int64_t> source;
  int steps = 0;     // of the search, at most
  size_t reach = 0;  // prefixes to score in a pass, at most
};

struct Candidate {
  float score;
  int order;  // ties go to the better hypothesis, then to the better token
  int from;
  int32_t token;
};

enum class Failure { kNone = 0, kNoNumber = 1, kNoToken = 2 };

class Sentence {
 public:
  // row: of the batch.
  Sentence(const Rules& rules, int row, int beam, int32_t start);

  int step() const { return prefixes[live[0]].depth; }
  // The prefix of one token more, made if it is not there.
  int child(int prefix, int32_t token);
  // Give slots to prefixes without one; those before them come first.
  void place(const std::vector<int>& chosen);
  // The prefixes to score next: those that the search waits for, with all that the forced prefix
  // adds to them; past it, those that are likely to come. Each after the one before it.
  std::vector<int> wanted(const Lookahead& lookahead);
  // Do all steps that are decided.
  void advance();
  // What may follow a prefix: the 2 N likeliest tokens, falling.
  float* best_scores(int prefix) { return &best_scores_[static_cast<size_t>(prefix) * count_]; }
  int32_t* best_tokens(int prefix) { return &best_tokens_[static_cast<size_t>(prefix) * count_]; }
  // The slots of a placed prefix from its root on: depth + 1 of them.
  void write_slots(int prefix, int* slots) const;
  int slots() const { return slots_; }  // that were ever taken

  std::vector<Prefix> prefixes;
  std::vector<int> live;     // that have not ended, best first
  std::vector<Ended> ended;  // in the order in which they did
  bool done = false;
  Failure failure = Failure::kNone;
  int64_t passes = 0, steps = 0, scored = 0, drafted = 0, used = 0;

 private:
  bool one_step();
  bool decided(const std::vector<Candidate>& growth) const;
  void end(std::vector<Ended> ending);
  std::vector<int> waiting();
  void look_ahead(const Lookahead& lookahead, std::vector<int>& wanted);
  std::vector<Candidate> predicted(const std::vector<std::pair<int, float>>& ahead,
                                   const std::vector<int64_t>& source) const;
  void add_missing(int prefix, std::vector<int>& wanted) const;
  void add_candidates(int from, int like, float score, std::vector<Candidate>& candidates) const;
  int same_suffix(int prefix) const;
  int32_t copied(int prefix, const std::vector<int64_t>& source) const;
  void follow(const std::vector<int>& chosen);
  void drop(int prefix);
  void release(int prefix);
  void unlink(int prefix);
  void give(int prefix);

  // The token of the forced prefix that must follow; -1 where any may.
  int64_t forced_after(int prefix) const {
    return prefix_token(*rules_, row_, prefixes[prefix].depth);
  }

  const Rules* rules_;
  int row_;
  int beam_, count_;  // N, 2 N
  int slots_ = 0;
  std::vector<float> best_scores_;
  std::vector<int32_t> best_tokens_;
  std::priority_queue<int, std::vector<int>, std::greater<int>> free_;
};

class Beams {
 public:
  // The session was opened for the batch and stays until the search is over.
  Beams(Session& session, const Embedding& embedding, const Rules& rules, int beam, int32_t start);

  // Passes of the model until nothing is left, at most so many; returns how many were done. It ends
  // early where a sentence fails.
  int64_t run(int64_t max_passes);
  // Look ahead in a sentence: so many steps, up to `reach` times N prefixes a pass.
  void look_ahead(int row, std::vector<int64_t> source, int steps, int reach);

  std::vector<Sentence> sentences;

 private:
  // The prefixes of a pass, sentence by sentence.
  struct Waiting : Entries {
    std::vector<int> prefix;
  };
  bool pass();
  Waiting wanted();
  const float* run_model(const Waiting& entries);
  void rate(float* logits, int row, int prefix);

  Session& session_;
  Embedding embedding_;
  Rules rules_;
  int beam_;
  std::vector<Lookahead> lookaheads_;  // of each sentence, or none
};

}  // namespace specdec
