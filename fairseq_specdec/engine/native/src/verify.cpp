#include "verify.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "errors.h"
#include "greedy_drafts.h"
#include "vocabulary.h"

namespace specdec {

void Rules::check(int rows, int words) const {
  for (int64_t symbol : {pad, unk, eos})
    require(symbol >= 0 && symbol < words, "a special symbol out of range");
  const int64_t count = rows * int64_t{bounded(prefix_width, 0, "a prefix of impossible length")};
  require(count == 0 || prefix != nullptr, "a prefix without tokens");
  for (int64_t i = 0; i < count; i++)
    require(prefix[i] < words, "a token that is not in the vocabulary");
  for (int row = 0; row < rows && limits != nullptr; row++)
    require(limits[row] >= 0 && limits[row] <= max_len, "a row's limit out of range");
}

bool Embedding::fits(const Stack& stack) const {
  const bool same = width == stack.shape.width && vocabulary == stack.vocabulary_size() &&
                    stack.plain() && (positions == nullptr || places > 0);
  if (tokens != nullptr || packed == nullptr) return same && tokens != nullptr;
  return same && (*packed)->in() == width && (*packed)->out() == vocabulary;
}

void Embedding::embed(int64_t token, int64_t position, float* out) const {
  require(token >= 0 && token < vocabulary, "a token that is not in the vocabulary");
  const float* word = tokens + token * width;
  if (tokens == nullptr) {
    (*packed)->read_row(static_cast<int>(token), out);
    word = out;
  }
  const float* place = nullptr;
  if (positions != nullptr) place = positions + std::min(position, places - 1) * width;
  int64_t c = 0;
  for (; c + LANES <= width; c += LANES) {
    Floats v = load(word + c) * scale;
    if (place != nullptr) v += load(place + c);
    store(out + c, v);
  }
  for (; c < width; c++) out[c] = word[c] * scale + (place != nullptr ? place[c] : 0.0f);
}

namespace {

// One entry's logits, with the rules applied.
class Entry {
 public:
  Entry(float* logits, int count, const Rules& rules, int row, int64_t step)
      : logits_(logits), count_(count), rules_(rules), forced_(forced_token(rules, row, step)) {
    divide(rules, count, logits);
    best_ = peak_of(logits, count);
    top_ = best_.top;
    log_sum_ = log_sum(logits, count, top_);
    constrain(rules, step, logits);
    if (forced_ >= 0) return;
    const bool early = step < rules.min_len;
    const int at = best_.at;
    if (best_.tied || at == rules.pad || (early && at == rules.eos) || rules.unk_penalty != 0)
      best_ = peak_of(logits, count);
  }

  bool decided() const {
    return std::isfinite(log_sum_) && (forced_ >= 0 || (best_.at >= 0 && !best_.tied));
  }
  int64_t best() const { return forced_ >= 0 ? forced_ : best_.at; }
  float score(int64_t token) const { return logits_[token] - top_ - log_sum_; }

  // Among the best few and close to the best one (Ge et al. 2022, equations 8 and 9).
  bool near(int64_t token) const {
    if (rules_.top_beta <= 1 || forced_ >= 0) return false;
    const float own = logits_[token];
    if (!(best_.top - own <= rules_.tau) || !(own > kMinusInfinity)) return false;
    int above = 0;
    for (int i = 0; i < count_; i++) above += logits_[i] > own;
    return above < rules_.top_beta;
  }

 private:
  const float* logits_;
  int count_;
  const Rules& rules_;
  int64_t forced_;  // the only possible token, or -1
  Peak best_;
  float top_, log_sum_;  // of the logits without constraints
};

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

// Some iterations whose tokens are chosen by their drafts and among those of a list; then one product
// of the whole vocabulary over all entries that were reached, which decides. A window of one iteration
// needs no list: all its entries are reached.
class Window {
 public:
  // `lengths`: of the hypotheses, which grow by what is chosen and then by what is decided.
  Window(Session& session, Verification& call, std::vector<int64_t>& lengths)
      : session_(session),
        call_(call),
        lengths_(lengths),
        begun_(lengths),
        rows_(session.rows()),
        words_(session.stack.vocabulary_size()),
        width_(session.stack.shape.width),
        wide_(call.read.size() * width_) {}

  // So many entries of each row, in so many steps at most. `propose`: or null, for drafts that are
  // given.
  void run(const Propose& propose, int wanted, int most) {
    static thread_local Buffer<float> features, logits;
    require(call_.drafts.rows == rows_ && call_.embedding.fits(session_.stack),
            "a batch or a table of another size than the session's");
    const int64_t enough = int64_t{wanted} * rows_;
    bounded(enough + rows_ * (call_.drafts.width + 1), 1, "impossible lengths");
    features_ = features.reserve((enough + rows_ * (call_.drafts.width + 1)) * width_);
    for (bool goes_on = true; goes_on;) {
      const int64_t entries = layers(propose);
      const bool last = wanted == 1 || steps_ == most ||
                        (entries == rows_ && kept_ + entries >= enough);
      goes_on = !last && choose() && kept_ < enough;
      if (last) kept_ += entries;
    }
    lengths_ = begun_;
    logits_ = logits.reserve(static_cast<size_t>(kept_) * words_);
  }

  int steps() const { return steps_; }
  bool ended() const { return ended_; }
  bool missed() const { return missed_; }
  double drafting() const { return drafting_; }  // seconds
  int64_t emitted() const { return lengths_[0] - begun_[0]; }  // tokens of a row

  // Adds the tokens of a step to all rows: accepted ones and the one after them. False where an entry
  // that decides has two best tokens or none.
  bool judge(int step) {
    for (int row = 0; row < rows_; row++)
      if (!judge(parts_[step * rows_ + row], step, row)) return false;
    for (int row = 0; row < rows_; row++) lengths_[row] += outcomes(step, row)[0];
    return true;
  }

  // Of a step and a row: as in StepOutputs.
  int64_t* outcomes(int step, int row) const {
    return call_.outputs.outcomes + 4 * (int64_t{step} * rows_ + row);
  }

 private:
  // What a row's step reached.
  struct Part {
    int64_t first, count;  // its entries
    const int64_t* drafted;
    int64_t size;    // of the draft
    bool chosen;     // the row's next tokens were written for the steps that follow
    bool sure = true;
  };

  int64_t* tokens(int row) const {
    return call_.hypotheses.tokens + row * call_.hypotheses.columns;
  }

  // Drafts, and features after them. Returns the entries of all rows.
  int64_t layers(const Propose& propose) {
    static thread_local Buffer<float> embedded, states;
    Drafts& drafts = call_.drafts;
    const auto started = std::chrono::steady_clock::now();
    if (propose) {
      int64_t* made = call_.outputs.drafts + steps_ * rows_ * drafts.width;
      sizes_.resize(rows_);
      propose(call_.hypotheses, made, sizes_.data());
      for (int row = 0; row < rows_; row++)
        sizes_[row] = std::min(sizes_[row], limit_of(call_.rules, row) - lengths_[row]);
      drafts.tokens = made;
      drafts.sizes = sizes_.data();
    }
    const double seconds = seconds_since(started);
    call_.outputs.seconds[2 * steps_] = seconds;
    drafting_ += seconds;
    Entries entries;
    int64_t longest = 0, total = 0;
    for (int row = 0; row < rows_; row++) {
      const int length = bounded(lengths_[row], 0, "impossible lengths");
      const int size = bounded(drafts.sizes[row], 0, "impossible lengths");
      const int64_t end = int64_t{length} + size;
      require(size <= drafts.width && end + 1 < call_.hypotheses.columns,
              "a draft or a hypothesis is larger than its buffer");
      outcomes(steps_, row)[3] = size;
      parts_.push_back({kept_ + total, size + 1, drafts.tokens + row * drafts.width, size, false});
      for (int at = length; at <= end; at++) entries.add(row, at, at + 1);
      total += size + 1;
      longest = std::max(longest, end);
    }
    const StepOutputs& outputs = call_.outputs;
    require(outputs.states == nullptr ||
                (longest + 1 < outputs.state_stride && outputs.state_stride < kMost),
            "no room for the hidden states, or rows that are impossibly far apart");
    session_.reserve(bounded(longest + 1, 0, "impossible lengths"));
    float* x = embedded.reserve(static_cast<size_t>(total) * width_);
    for (int64_t i = 0; i < total; i++) {
      const int row = entries.row[i], at = entries.slot[i], first = at - lengths_[row] - 1;
      call_.embedding.embed(first < 0 ? tokens(row)[at] : drafts.tokens[row * drafts.width + first],
                            at, x + i * width_);
    }
    float* read = outputs.states == nullptr ? nullptr : states.reserve(total * wide_);
    session_.run(entries.block(), x, features_ + kept_ * width_, {nullptr, call_.read, read});
    for (int row = 0; row < rows_ && read != nullptr; row++) {
      const int64_t count = (drafts.sizes[row] + 1) * wide_;
      std::copy_n(read, count,
                  outputs.states + (row * outputs.state_stride + lengths_[row] + 1) * wide_);
      read += count;
    }
    steps_++;
    return total;
  }

  // The tokens of a step by the list; of a lone row as far as they are those of the draft, and the one
  // after these. False where the window ends.
  bool choose() {
    std::vector<int64_t> chosen(rows_);
    Part* parts = &parts_[(steps_ - 1) * rows_];
    bool goes_on = true, drafted = true;
    for (int64_t w = 0; drafted; w++, kept_ += rows_) {
      // A lone row stops where its token is unsure, if most misses are there.
      specdec::choose(session_, call_.rules, lengths_.data(), features_ + kept_ * width_,
                      chosen.data(), rows_ == 1 ? &parts->sure : nullptr);
      for (int row = 0; row < rows_; row++) {
        tokens(row)[++lengths_[row]] = chosen[row];
        goes_on &= chosen[row] >= 0 && chosen[row] != call_.rules.eos;
        parts[row].count = w + 1;
        parts[row].chosen = true;
      }
      goes_on &= parts->sure || !session_.windows.ends_unsure();
      drafted = goes_on && w < parts->size && parts->drafted[w] == chosen[0];
    }
    return goes_on;
  }

  // The logits of entry `at`, which come after those of the entries before it. Those of a lone row's
  // step are projected some at a time: what follows a rejected token is not looked at.
  float* logits(int64_t at) {
    constexpr int64_t kSome = 12;
    if (at >= projected_) {
      const int64_t left = kept_ - at, count = rows_ * steps_ == 1 ? std::min(kSome, left) : left;
      session_.stack.logits(static_cast<int>(count), features_ + at * width_,
                            logits_ + at * words_);
      projected_ = at + count;
    }
    return logits_ + at * words_;
  }

  bool judge(const Part& part, int step, int row) {
    const int64_t length = lengths_[row], width = call_.drafts.width + 1;
    int64_t* next = tokens(row) + length + 1;
    float* scores = call_.hypotheses.scores + row * call_.hypotheses.columns + length;
    int64_t* choices = call_.outputs.choices;
    if (choices != nullptr) choices += (int64_t{step} * rows_ + row) * width;
    int64_t* outcome = outcomes(step, row);
    bool goes_on = true;
    for (int64_t w = 0; goes_on; w++) {
      const Entry entry(logits(part.first + w), words_, call_.rules, row, length + w);
      if (!entry.decided()) return false;
      const bool accepted =
          w < part.size && (part.drafted[w] == entry.best() || entry.near(part.drafted[w]));
      const int64_t token = accepted ? part.drafted[w] : entry.best();
      scores[w] = entry.score(token);
      if (!(scores[w] > kMinusInfinity)) return false;
      if (choices != nullptr) choices[w] = entry.best();
      session_.observe(features_ + (part.first + w) * width_);
      const bool wrong = part.chosen && token != next[w], last = w + 1 == part.count;
      if (last && !part.sure) session_.windows.observe_unsure(wrong);
      missed_ |= wrong;
      next[w] = token;
      if (session_.list != nullptr) session_.list->add(token);
      outcome[0] = w + 1;
      outcome[1] = token == call_.rules.eos;
      outcome[2] = w + (accepted ? 1 : 0);
      ended_ |= outcome[1] != 0;
      goes_on = accepted && !outcome[1] && !last;
    }
    return true;
  }

  Session& session_;
  Verification& call_;
  std::vector<int64_t>& lengths_;
  const std::vector<int64_t> begun_;
  const int rows_, words_, width_;
  const size_t wide_;  // of an entry's hidden states
  int steps_ = 0;
  int64_t kept_ = 0, projected_ = 0;  // entries that were reached; those with logits
  bool ended_ = false, missed_ = false;
  double drafting_ = 0;
  std::vector<int64_t> sizes_;
  std::vector<Part> parts_;  // [steps][rows]
  float *features_ = nullptr, *logits_ = nullptr;
};

}  // namespace

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

int verify(Session& session, Verification call, const Propose& propose, int max_iterations,
           int window, int64_t& windows) {
  require(max_iterations == 1 || (max_iterations > 1 && (propose || call.drafts.width == 0)),
          "several iterations with drafts");
  bounded(call.drafts.width, 0, "drafts of an impossible width");
  bounded(call.hypotheses.columns, 1, "hypotheses of an impossible length");
  const int rows = session.rows();
  call.rules.check(rows, session.stack.vocabulary_size());
  std::vector<int64_t> lengths(call.hypotheses.lengths, call.hypotheses.lengths + rows);
  for (int64_t length : lengths) bounded(length, 0, "impossible lengths");
  call.hypotheses.lengths = lengths.data();
  // The planner knows windows with drafts by another number of rows.
  const int kind = propose ? 0 : rows;
  const bool chooses = session.chooses() && max_iterations > 1 && call.rules.top_beta <= 1 &&
                       (!propose || (rows == 1 && session.preview == nullptr)) &&
                       (window > 0 || (window < 0 && rows <= WindowPlanner::kMostRows));
  for (int done = 0; done < max_iterations;) {
    const double began = cpu_seconds();
    const auto started = std::chrono::steady_clock::now();
    int planned = !chooses ? 1 : window > 0 ? window : session.windows.plan(kind);
    if (!propose) planned = std::min(planned, max_iterations - done);
    Window now(session, call, lengths);
    now.run(propose, planned, max_iterations - done);
    windows += planned > 1;
    int right = 0;
    bool decided = true;
    while (decided && right < now.steps() && !now.ended() && !now.missed())
      if ((decided = now.judge(right))) right++;
    if (chooses && window < 0)
      session.windows.observe(kind, planned, now.steps(), now.emitted(), cpu_seconds() - began);
    const double seconds = seconds_since(started) - now.drafting();
    StepOutputs& outputs = call.outputs;
    for (int i = 0; i < right; i++) outputs.seconds[2 * i + 1] = seconds / right;
    outputs.outcomes += 4 * rows * right;
    outputs.seconds += 2 * right;
    if (outputs.drafts != nullptr) outputs.drafts += right * rows * call.drafts.width;
    if (outputs.choices != nullptr) outputs.choices += right * rows * (call.drafts.width + 1);
    done += right;
    if (!decided || now.ended()) return done;
  }
  return max_iterations;
}

}  // namespace specdec
