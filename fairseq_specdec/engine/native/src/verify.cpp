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

void Hypotheses::check() const {
  bounded(columns, 1, "hypotheses of an impossible length");
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
    if (at == rules.pad || (early && at == rules.eos) || rules.unk_penalty != 0)
      best_ = peak_of(logits, count);
    else if (best_.tied)
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

// One iteration: its buffers, and its parts in their order.
class Iteration {
 public:
  Iteration(Session& session, const Verification& call)
      : session_(session),
        call_(call),
        rows_(session.rows()),
        words_(session.stack.vocabulary_size()),
        width_(session.stack.shape.width) {}

  // False where an entry that decides has two best tokens or none.
  bool run() {
    check();
    score();
    for (int row = 0; row < rows_; row++)
      if (!judge(row)) return false;
    store();
    return true;
  }

 private:
  void check() {
    require(call_.drafts.rows == rows_ && call_.embedding.fits(session_.stack),
            "a batch or a table of another size than the session's");
    int64_t longest = 0;
    for (int row = 0; row < rows_; row++) {
      const int length = bounded(call_.hypotheses.lengths[row], 0, "impossible lengths");
      const int size = bounded(call_.drafts.sizes[row], 0, "impossible lengths");
      const int64_t end = int64_t{length} + size;
      require(size <= call_.drafts.width && end + 1 < call_.hypotheses.columns,
              "a draft or a hypothesis is larger than its buffer");
      bounded(total_ + size + 1, 1, "impossible lengths");
      first_.push_back(total_);
      for (int at = length; at <= end; at++) entries_.add(row, at, at + 1);
      total_ += size + 1;
      longest = std::max(longest, end);
    }
    const int64_t stride = call_.outputs.state_stride;
    require(call_.outputs.states == nullptr || (longest + 1 < stride && stride < kMost),
            "no room for the hidden states, or rows that are impossibly far apart");
    session_.reserve(bounded(longest + 1, 0, "impossible lengths"));
  }

  // The token of an entry.
  int64_t token_of(int row, int64_t at) const {
    const int64_t length = call_.hypotheses.lengths[row];
    return at > length ? call_.drafts.tokens[row * call_.drafts.width + at - length - 1]
                       : call_.hypotheses.tokens[row * call_.hypotheses.columns + at];
  }

  // Features of all entries, and the hidden states that are read.
  void score() {
    static thread_local Buffer<float> embedded, features, states, logits;
    const size_t size = static_cast<size_t>(total_) * width_;
    float* x = embedded.reserve(size);
    for (int64_t i = 0; i < total_; i++) {
      const int row = entries_.row[i], at = entries_.slot[i];
      call_.embedding.embed(token_of(row, at), at, x + i * width_);
    }
    features_ = features.reserve(size);
    states_ = call_.outputs.states == nullptr ? nullptr : states.reserve(size * call_.read.size());
    session_.run(entries_.block(), x, features_, {nullptr, call_.read, states_});
    logits_ = logits.reserve(static_cast<size_t>(total_) * words_);
  }

  // The logits of entry `at`, which come after those of the entries before it. Those of a lone row
  // are projected some at a time: what follows a rejected token is not looked at.
  float* logits(int64_t at) {
    constexpr int kSome = 12;
    if (at >= projected_) {
      const int64_t count = rows_ == 1 ? std::min<int64_t>(kSome, total_ - at) : total_ - at;
      session_.stack.logits(static_cast<int>(count), features_ + at * width_,
                            logits_ + at * words_);
      projected_ = at + count;
    }
    return logits_ + at * words_;
  }

  // Adds accepted tokens and the bonus token to a row.
  bool judge(int row) {
    const int64_t first = first_[row], length = call_.hypotheses.lengths[row];
    const int64_t* drafted = call_.drafts.tokens + row * call_.drafts.width;
    int64_t* tokens = call_.hypotheses.tokens + row * call_.hypotheses.columns + length + 1;
    float* scores = call_.hypotheses.scores + row * call_.hypotheses.columns + length;
    int64_t* outcome = call_.outputs.outcomes + 4 * row;
    bool goes_on = true;
    for (int64_t w = 0; goes_on; w++) {
      const Entry entry(logits(first + w), words_, call_.rules, row, length + w);
      if (!entry.decided()) return false;
      const bool accepted = w < call_.drafts.sizes[row] &&
                            (drafted[w] == entry.best() || entry.near(drafted[w]));
      tokens[w] = accepted ? drafted[w] : entry.best();
      scores[w] = entry.score(tokens[w]);
      if (!(scores[w] > kMinusInfinity)) return false;
      if (call_.outputs.choices != nullptr)
        call_.outputs.choices[row * (call_.drafts.width + 1) + w] = entry.best();
      outcome[0] = w + 1;
      outcome[1] = tokens[w] == call_.rules.eos;
      outcome[2] = w + (accepted ? 1 : 0);
      goes_on = accepted && !outcome[1];
    }
    return true;
  }

  void store() {
    const size_t wide = call_.read.size() * width_;
    const StepOutputs& outputs = call_.outputs;
    for (int row = 0; row < rows_ && outputs.states != nullptr; row++) {
      const int64_t column = row * outputs.state_stride + call_.hypotheses.lengths[row] + 1;
      std::copy_n(states_ + first_[row] * wide, (call_.drafts.sizes[row] + 1) * wide,
                  outputs.states + column * wide);
    }
  }

  Session& session_;
  const Verification& call_;
  const int rows_, words_, width_;
  int64_t total_ = 0, projected_ = 0;  // entries; those with logits
  Entries entries_;
  std::vector<int64_t> first_;  // of each row
  float *features_ = nullptr, *states_ = nullptr, *logits_ = nullptr;
};

// Some steps of plain greedy search, whose tokens are chosen among those of a list; then one product
// of the whole vocabulary over all of them, which decides.
class Window {
 public:
  Window(Session& session, const Verification& call, std::vector<int64_t>& lengths)
      : session_(session),
        call_(call),
        lengths_(lengths),
        rows_(session.rows()),
        words_(session.stack.vocabulary_size()),
        width_(session.stack.shape.width),
        longest_(*std::max_element(lengths.begin(), lengths.end())) {}

  // At most so many steps.
  void run(int most) {
    static thread_local Buffer<float> features, embedded, states, logits;
    const size_t size = static_cast<size_t>(rows_) * width_, wide = call_.read.size() * width_;
    float* x = embedded.reserve(size);
    features_ = features.reserve(size * most);
    states_ = wide == 0 ? nullptr : states.reserve(static_cast<size_t>(rows_) * wide * most);
    chosen_.assign(static_cast<size_t>(rows_) * most, 0);
    unsure_.assign(most, false);
    check(most);
    for (bool goes_on = true; goes_on && steps_ < most; steps_++) {
      layers(x);
      goes_on = steps_ + 1 < most && choose();
    }
    logits_ = logits.reserve(static_cast<size_t>(rows_) * steps_ * words_);
    session_.stack.logits(rows_ * steps_, features_, logits_);
  }

  int steps() const { return steps_; }

  // The tokens of a step, for all rows; false where an entry has two best tokens or none.
  bool judge(int step, int64_t* outcomes, int64_t* choices) {
    for (int row = 0; row < rows_; row++) {
      float* logits = logits_ + static_cast<size_t>(step * rows_ + row) * words_;
      const int64_t length = lengths_[row], at = row * call_.hypotheses.columns + length;
      const Entry entry(logits, words_, call_.rules, row, length);
      if (!entry.decided() || !(entry.score(entry.best()) > kMinusInfinity)) return false;
      const int64_t token = entry.best();
      call_.hypotheses.tokens[at + 1] = token;
      call_.hypotheses.scores[at] = entry.score(token);
      if (choices != nullptr) choices[row] = token;
      const bool ended = token == call_.rules.eos;
      const int64_t outcome[] = {1, ended, 0, 0};
      std::copy_n(outcome, 4, outcomes + 4 * row);
      ended_ |= ended;
      const bool missed = token != chosen_[step * rows_ + row];
      missed_ |= step + 1 < steps_ && missed;
      if (unsure_[step]) session_.windows.observe_unsure(missed);
      if (session_.list != nullptr) session_.list->add(token);
    }
    store(step);
    for (int64_t& length : lengths_) length++;
    return true;
  }

  bool ended() const { return ended_; }
  bool missed() const { return missed_; }

 private:
  void check(int most) {
    require(call_.drafts.rows == rows_ && call_.embedding.fits(session_.stack),
            "a batch or a table of another size than the session's");
    const int64_t end = bounded(longest_ + most, 0, "impossible lengths");
    require(end < call_.hypotheses.columns, "a hypothesis is larger than its buffer");
    require(states_ == nullptr ||
                (end < call_.outputs.state_stride && call_.outputs.state_stride < kMost),
            "no room for the hidden states, or rows that are impossibly far apart");
    bounded(int64_t{rows_} * most, 1, "impossible lengths");
    session_.reserve(static_cast<int>(end));
  }

  // The features of a step, and the hidden states that are read.
  void layers(float* x) {
    std::vector<int> row(rows_), slot(rows_), upto(rows_);
    for (int i = 0; i < rows_; i++) {
      const int64_t at = lengths_[i] + steps_;
      const int64_t token = steps_ > 0 ? chosen_[(steps_ - 1) * rows_ + i]
                                       : call_.hypotheses.tokens[i * call_.hypotheses.columns + at];
      require(token >= 0 && token < words_, "a token that is not in the vocabulary");
      call_.embedding.embed(token, at, x + static_cast<size_t>(i) * width_);
      row[i] = i;
      slot[i] = static_cast<int>(at);
      upto[i] = slot[i] + 1;
    }
    const size_t first = static_cast<size_t>(steps_) * rows_ * width_;
    session_.run({rows_, row.data(), slot.data(), Visibility{upto.data()}}, x, features_ + first,
                 {nullptr, call_.read,
                  states_ == nullptr ? nullptr : states_ + first * call_.read.size()});
  }

  // Each row's token of the list; false where the window ends with this step.
  bool choose() {
    int64_t* tokens = chosen_.data() + steps_ * rows_;
    std::vector<int64_t> at(lengths_);
    for (int64_t& one : at) one += steps_;
    bool sure = true, lone = rows_ == 1;
    specdec::choose(session_, call_.rules, at.data(),
                    features_ + static_cast<size_t>(steps_) * rows_ * width_, tokens,
                    lone ? &sure : nullptr);
    // A lone row stops where its token is unsure, if most misses are there.
    unsure_[steps_] = !sure;
    return (sure || !session_.windows.ends_unsure()) &&
           std::all_of(tokens, tokens + rows_, [&](int64_t token) {
             return token >= 0 && token != call_.rules.eos;
           });
  }

  void store(int step) {
    const size_t wide = call_.read.size() * width_;
    const StepOutputs& outputs = call_.outputs;
    for (int row = 0; row < rows_ && states_ != nullptr; row++)
      std::copy_n(states_ + static_cast<size_t>(step * rows_ + row) * wide, wide,
                  outputs.states + (row * outputs.state_stride + lengths_[row] + 1) * wide);
  }

  Session& session_;
  const Verification& call_;
  std::vector<int64_t>& lengths_;
  const int rows_, words_, width_;
  const int64_t longest_;
  int steps_ = 0;
  bool ended_ = false, missed_ = false;
  std::vector<int64_t> chosen_;  // [steps][rows]
  std::vector<bool> unsure_;     // [steps], of a lone row
  float *features_ = nullptr, *states_ = nullptr, *logits_ = nullptr;
};

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

// Of this thread: windows are judged by work, which other programs do not change much.
double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

// Plain greedy search, in windows; what `verify` returns.
int search_in_windows(Session& session, Verification& call, std::vector<int64_t>& lengths, int most,
                      int asked, int64_t& windows) {
  StepOutputs& now = call.outputs;
  const int rows = session.rows();
  for (int done = 0; done < most;) {
    const double began = cpu_seconds();
    const auto started = std::chrono::steady_clock::now();
    const int planned = std::min(asked > 0 ? asked : session.windows.plan(rows), most - done);
    Window window(session, call, lengths);
    window.run(planned);
    windows += planned > 1;
    int right = 0;
    bool decided = true;
    while (decided && right < window.steps() && !window.ended() && !window.missed()) {
      decided = window.judge(right, now.outcomes, now.choices);
      if (!decided) break;
      right++;
      now.outcomes += 4 * rows;
      if (now.choices != nullptr) now.choices += rows;
    }
    if (asked < 0) session.windows.observe(rows, planned, window.steps(), right, cpu_seconds() - began);
    const double seconds = seconds_since(started);
    for (int i = 0; i < right; i++, now.seconds += 2) {
      now.seconds[0] = 0;
      now.seconds[1] = seconds / right;
    }
    done += right;
    if (!decided || window.ended()) return done;
  }
  return most;
}

}  // namespace

int verify(Session& session, Verification call, const Propose& propose, int max_iterations,
           int window, int64_t& windows) {
  require(max_iterations == 1 || (max_iterations > 1 && (propose || call.drafts.width == 0)),
          "several iterations with drafts");
  const int64_t width = bounded(call.drafts.width, 0, "drafts of an impossible width");
  call.hypotheses.check();
  const int rows = session.rows();
  call.rules.check(rows, session.stack.vocabulary_size());
  std::vector<int64_t> lengths(call.hypotheses.lengths, call.hypotheses.lengths + rows);
  for (int64_t length : lengths) bounded(length, 0, "impossible lengths");
  call.hypotheses.lengths = lengths.data();
  std::vector<int64_t> sizes(rows);
  if (propose) call.drafts.sizes = sizes.data();
  const bool few = window > 0 || (window < 0 && rows <= WindowPlanner::kMostRows);
  if (!propose && width == 0 && max_iterations > 1 && session.chooses() && few)
    return search_in_windows(session, call, lengths, max_iterations, window, windows);
  StepOutputs& now = call.outputs;
  for (int done = 0; done < max_iterations; done++) {
    const auto started = std::chrono::steady_clock::now();
    if (propose) {
      propose(call.hypotheses, now.drafts, sizes.data());
      call.drafts.tokens = now.drafts;
    }
    for (int row = 0; row < rows; row++) {
      if (propose) sizes[row] = std::min(sizes[row], limit_of(call.rules, row) - lengths[row]);
      now.outcomes[4 * row + 3] = call.drafts.sizes[row];
    }
    const auto drafted = std::chrono::steady_clock::now();
    if (!Iteration(session, call).run()) return done;
    now.seconds[0] = std::chrono::duration<double>(drafted - started).count();
    now.seconds[1] = std::chrono::duration<double>(std::chrono::steady_clock::now() - drafted).count();
    bool ended = false;
    for (int row = 0; row < rows; row++) {
      lengths[row] += now.outcomes[4 * row];
      ended |= now.outcomes[4 * row + 1] != 0;
    }
    if (ended) return done + 1;
    now.outcomes += 4 * rows;
    now.seconds += 2;
    if (now.drafts != nullptr) now.drafts += rows * width;
    if (now.choices != nullptr) now.choices += rows * (width + 1);
  }
  return max_iterations;
}

}  // namespace specdec
