#include "verify.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "errors.h"
#include "vocabulary.h"

namespace specdec {

void Hypotheses::check() const {
  bounded(columns, 1, "hypotheses of an impossible length");
  bounded(token_stride, 0, "rows that are impossibly far apart");
  bounded(score_stride, 0, "rows that are impossibly far apart");
}

bool Embedding::fits(const Stack& stack) const {
  const bool same = width == stack.shape.width && vocabulary == stack.vocabulary_size() &&
                    stack.plain() && (positions == nullptr || places > 0);
  if (tokens != nullptr || packed == nullptr) return same && tokens != nullptr;
  return same && (*packed)->in() == width && (*packed)->out() == vocabulary;
}

void Embedding::embed(int64_t token, int64_t position, float* out) const {
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

// Where the entries of all rows stand in one list.
struct Entries {
  std::vector<int> row, slot, upto;
  std::vector<size_t> first;  // of each row
};

Entries lay_out(const Session& session, const Embedding& embedding, const Drafts& drafts,
                const Hypotheses& hypotheses, int capacity, float* x) {
  Entries entries;
  const auto known = [&](int64_t token) {
    if (token < 0 || token >= embedding.vocabulary)
      throw std::invalid_argument("a token that is not in the vocabulary");
    return token;
  };
  for (int row = 0; row < session.rows(); row++) {
    entries.first.push_back(entries.row.size());
    const int64_t length = hypotheses.lengths[row], size = drafts.sizes[row];
    if (length < 0 || size < 0 || size > drafts.width || length + size >= capacity ||
        length + size + 1 >= hypotheses.columns)
      throw std::invalid_argument("a draft or a hypothesis is larger than its buffer");
    for (int64_t w = 0; w <= size; w++) {
      const int64_t token = w > 0 ? drafts.tokens[row * drafts.token_stride + w - 1]
                                  : hypotheses.tokens[row * hypotheses.token_stride + length];
      const int at = static_cast<int>(length + w);
      embedding.embed(known(token), at, x + entries.row.size() * embedding.width);
      entries.row.push_back(row);
      entries.slot.push_back(at);
      entries.upto.push_back(at + 1);
    }
  }
  return entries;
}

// One entry's logits and what the rules say of them.
class Entry {
 public:
  Entry(float* logits, int count, const Rules& rules, int64_t step)
      : logits_(logits), count_(count), rules_(rules), forced_(step >= rules.max_len) {
    if (rules.temperature != 1.0f)
      for (int i = 0; i < count; i++) logits[i] /= rules.temperature;
    best_ = peak_of(logits, count);
    top_ = best_.top;
    log_sum_ = log_sum(logits, count, top_);
    // The constraints change single logits and do not renormalise.
    const bool early = step < rules.min_len;
    logits[rules.pad] = kMinusInfinity;
    if (early) logits[rules.eos] = kMinusInfinity;
    logits[rules.unk] -= rules.unk_penalty;
    const int at = best_.at;
    if (at == rules.pad || (early && at == rules.eos) || rules.unk_penalty != 0)
      best_ = peak_of(logits, count);
    else if (best_.tied)
      best_ = peak_of(logits, count);
  }

  bool decided() const { return std::isfinite(log_sum_) && best_.at >= 0 && !best_.tied; }
  int64_t best() const { return forced_ ? rules_.eos : best_.at; }
  float score(int64_t token) const { return logits_[token] - top_ - log_sum_; }

  double regret(int64_t token) const { return best_.top - logits_[token]; }

  // Among the best few and close to the best one (Ge et al. 2022, equations 8 and 9).
  bool near(int64_t token) const {
    if (rules_.top_beta <= 1 || forced_) return false;
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
  bool forced_;
  Peak best_;
  float top_, log_sum_;  // of the logits without constraints
};

}  // namespace

namespace {

bool verify_once(Session& session, const Embedding& embedding, const Rules& rules,
                 const Drafts& drafts, const Hypotheses& hypotheses, const std::vector<int>& read,
                 const Verdict& verdict) {
  const Stack& stack = session.stack;
  const int rows = session.rows(), words = stack.vocabulary_size(), width = stack.shape.width;
  if (drafts.rows != rows || !embedding.fits(stack))
    throw std::invalid_argument("a batch or a table of another size than the session's");
  for (int64_t symbol : {rules.pad, rules.unk, rules.eos})
    if (symbol < 0 || symbol >= words) throw std::invalid_argument("a special symbol out of range");
  int64_t longest = 0, total = 0;
  for (int row = 0; row < rows; row++) {
    const int length = bounded(hypotheses.lengths[row], 0, "impossible lengths");
    const int size = bounded(drafts.sizes[row], 0, "impossible lengths");
    longest = std::max<int64_t>(longest, length + size);
    total += size + 1;
  }
  bounded(longest, 0, "impossible lengths");
  bounded(total, 1, "impossible lengths");
  session.reserve(static_cast<int>(longest) + 1);

  static thread_local Buffer<float> embedded, features, states, logits;
  const size_t size = static_cast<size_t>(total) * width;
  float* x = embedded.reserve(size);
  const Entries entries = lay_out(session, embedding, drafts, hypotheses, session.capacity(), x);
  Block block{static_cast<int>(total), entries.row.data(), entries.slot.data(),
              Sight{entries.upto.data()}};
  float* found = features.reserve(size);
  float* kept = verdict.states == nullptr ? nullptr : states.reserve(size * read.size());
  session.run(block, x, nullptr, nullptr, read, found, kept);

  // The entries of a lone row are projected some at a time: those after a rejected token are not
  // looked at.
  constexpr int kSome = 12;
  float* rated = logits.reserve(static_cast<size_t>(total) * words);
  int64_t projected = 0;
  // Stored at the end: an iteration that is left to the caller spends nothing.
  std::vector<double> spent(hypotheses.spent == nullptr ? 0 : rows);
  std::copy_n(hypotheses.spent, spent.size(), spent.begin());
  for (int row = 0; row < rows; row++) {
    const int64_t first = entries.first[row], length = hypotheses.lengths[row];
    int64_t* tokens = hypotheses.tokens + row * hypotheses.token_stride + length + 1;
    float* scores = hypotheses.scores + row * hypotheses.score_stride + length;
    int64_t* facts = verdict.facts + 3 * row;
    for (int64_t w = 0; w <= drafts.sizes[row]; w++) {
      const int64_t at = first + w;
      if (at >= projected) {
        const int64_t count = rows == 1 ? std::min<int64_t>(kSome, total - at) : total - at;
        stack.logits(static_cast<int>(count), found + at * width, rated + at * words);
        projected = at + count;
      }
      const Entry entry(rated + at * words, words, rules, length + w);
      if (!entry.decided()) return false;
      const int64_t best = entry.best();
      const bool drafted = w < drafts.sizes[row];
      const int64_t draft = drafted ? drafts.tokens[row * drafts.token_stride + w] : -1;
      bool accepted = drafted && (draft == best || entry.near(draft));
      if (accepted && draft != best && !spent.empty()) {
        const double total_regret = spent[row] + entry.regret(draft);
        accepted = total_regret <= rules.regret_budget;
        if (accepted) spent[row] = total_regret;
      }
      const int64_t token = accepted ? draft : best;
      tokens[w] = token;
      scores[w] = entry.score(token);
      if (!(scores[w] > kMinusInfinity)) return false;
      if (verdict.choices != nullptr) verdict.choices[row * (drafts.width + 1) + w] = best;
      facts[0] = w + 1;
      facts[1] = token == rules.eos;
      facts[2] = w + (accepted ? 1 : 0);
      if (!accepted || facts[1]) break;
    }
  }
  // Only now: those of the iteration before are still the caller's where this one is left to it.
  std::copy(spent.begin(), spent.end(), hypotheses.spent);
  const size_t wide = read.size() * width;
  for (int row = 0; row < rows && verdict.states != nullptr; row++)
    std::copy_n(kept + entries.first[row] * wide, (drafts.sizes[row] + 1) * wide,
                verdict.states + row * (drafts.width + 1) * wide);
  return true;
}

}  // namespace

int verify(Session& session, const Embedding& embedding, const Rules& rules, const Drafts& drafts,
           const Propose& propose, const Hypotheses& hypotheses, const std::vector<int>& read,
           int most, const Verdict& verdict) {
  if (most < 1 || (most > 1 && !propose && drafts.width > 0))
    throw std::invalid_argument("several iterations with drafts");
  bounded(drafts.width, 0, "drafts of an impossible width");
  bounded(drafts.token_stride, 0, "rows that are impossibly far apart");
  hypotheses.check();
  const int rows = session.rows();
  const int64_t entries = rows * (drafts.width + 1);
  std::vector<int64_t> lengths(hypotheses.lengths, hypotheses.lengths + rows);
  for (int64_t length : lengths) bounded(length, 0, "impossible lengths");
  Hypotheses grown = hypotheses;
  grown.lengths = lengths.data();
  Drafts proposed = drafts;
  Verdict now = verdict;
  for (int done = 0; done < most; done++) {
    if (propose && !propose(grown, &proposed)) return done;
    const auto started = std::chrono::steady_clock::now();
    if (!verify_once(session, embedding, rules, proposed, grown, read, now)) return done;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started;
    verdict.seconds[done] = passed.count();
    bool ended = false;
    for (int row = 0; row < rows; row++) {
      lengths[row] += now.facts[3 * row];
      ended |= now.facts[3 * row + 1] != 0;
    }
    if (ended) return done + 1;
    now.facts += 3 * rows;
    if (now.choices != nullptr) now.choices += entries;
    if (now.states != nullptr && now.each) now.states += entries * read.size() * embedding.width;
  }
  return most;
}

}  // namespace specdec
