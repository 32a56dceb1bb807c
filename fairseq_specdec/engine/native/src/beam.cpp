#include "beam.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "errors.h"
#include "vocabulary.h"

namespace specdec {

constexpr int kLongestSuffix = 4;  // by which prefixes are compared

Sentence::Sentence(const Rules& rules, int row, int beam, int32_t start)
    : rules_(&rules), row_(row), beam_(beam), count_(2 * beam) {
  prefixes.push_back(Prefix{start, -1, 0});
  live.push_back(0);
  best_scores_.resize(count_);
  best_tokens_.resize(count_);
}

int Sentence::child(int prefix, int32_t token) {
  for (int at = prefixes[prefix].first_child; at >= 0; at = prefixes[at].next_sibling)
    if (prefixes[at].token == token) return at;
  const int made = static_cast<int>(prefixes.size());
  Prefix fresh{token, prefix, prefixes[prefix].depth + 1};
  fresh.next_sibling = prefixes[prefix].first_child;
  prefixes[prefix].first_child = made;
  prefixes.push_back(fresh);
  best_scores_.resize(prefixes.size() * count_);
  best_tokens_.resize(prefixes.size() * count_);
  return made;
}

void Sentence::place(const std::vector<int>& chosen) {
  for (int at : chosen) {
    Prefix& prefix = prefixes[at];
    if (free_.empty()) {
      prefix.slot = slots_++;
    } else {
      prefix.slot = free_.top();
      free_.pop();
    }
  }
}

void Sentence::write_slots(int prefix, int* slots) const {
  for (; prefix >= 0; prefix = prefixes[prefix].parent)
    slots[prefixes[prefix].depth] = prefixes[prefix].slot;
}

void Sentence::advance() {
  passes++;
  while (!done && failure == Failure::kNone && one_step()) steps++;
}

namespace {

// The first `count` of the candidates, in order; those without a number have no place in it.
void keep_best(std::vector<Candidate>& candidates, size_t count) {
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                  [](const Candidate& one) { return std::isnan(one.score); }),
                   candidates.end());
  const size_t kept = std::min(count, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + kept, candidates.end(),
                    [](const Candidate& a, const Candidate& b) {
                      return a.score != b.score ? a.score > b.score : a.order < b.order;
                    });
  candidates.resize(kept);
}

}  // namespace

// The possible tokens after a prefix of this score, as those after `like`.
void Sentence::add_candidates(int from, int like, float score,
                              std::vector<Candidate>& candidates) const {
  const size_t first = static_cast<size_t>(like) * count_;
  for (int i = 0; i < count_; i++) {
    const float total = best_scores_[first + i] + score;
    if (!(total <= kMinusInfinity))
      candidates.push_back(
          {total, static_cast<int>(candidates.size()), from, best_tokens_[first + i]});
  }
}

bool Sentence::one_step() {
  std::vector<Candidate> candidates;
  for (int from : live)
    if (prefixes[from].scored) add_candidates(from, from, prefixes[from].score, candidates);
  for (const Candidate& one : candidates)
    if (std::isnan(one.score)) failure = Failure::kNoNumber;
  if (failure != Failure::kNone) return false;
  keep_best(candidates, count_);
  std::vector<Ended> ending;
  std::vector<Candidate> growth;
  for (size_t rank = 0; rank < candidates.size(); rank++) {
    const Candidate& one = candidates[rank];
    if (one.token == rules_->eos) {
      if (rank < static_cast<size_t>(beam_)) ending.push_back({one.from, one.score});
    } else if (growth.size() < static_cast<size_t>(beam_)) {
      growth.push_back(one);
    }
  }
  if (!decided(growth)) return false;
  const bool forced = forced_after(live[0]) >= 0;
  end(std::move(ending));
  if (done) return true;
  if (growth.empty()) {
    failure = Failure::kNoToken;
    return false;
  }
  std::vector<int> chosen;
  for (const Candidate& one : growth) {
    chosen.push_back(child(one.from, one.token));
    prefixes[chosen.back()].score = one.score;
    used += prefixes[chosen.back()].scored && !forced;
  }
  follow(chosen);
  live = std::move(chosen);
  return true;
}

// Whether the live prefixes that are not scored cannot come among the first N: no token has a
// probability above 1, but for an unknown word that is rewarded.
bool Sentence::decided(const std::vector<Candidate>& growth) const {
  float unknown = kMinusInfinity;
  bool all = true;
  for (int at : live) {
    if (prefixes[at].scored) continue;
    unknown = std::max(unknown, prefixes[at].score);
    all = false;
  }
  const float reward = std::max(0.0f, -rules_->unk_penalty);
  return all || (growth.size() == static_cast<size_t>(beam_) &&
                 growth.back().score > unknown + reward);
}

void Sentence::end(std::vector<Ended> ending) {
  if (forced_after(live[0]) == rules_->eos && !ending.empty()) {
    // Stock gives all N hypotheses what the first one has.
    const auto first = std::find_if(ending.begin(), ending.end(),
                                    [&](const Ended& one) { return one.prefix == live[0]; });
    ending = first == ending.end() ? std::vector<Ended>{} : std::vector<Ended>(beam_, *first);
  }
  for (const Ended& one : ending)
    if (ended.size() < static_cast<size_t>(beam_)) ended.push_back(one);
  done = ended.size() == static_cast<size_t>(beam_) ||
         (!ending.empty() && step() >= limit_of(*rules_, row_));
}

std::vector<int> Sentence::wanted(const Lookahead& lookahead) {
  std::vector<int> wanted = waiting();
  const size_t count = wanted.size();
  if (forced_after(live[0]) < 0) look_ahead(lookahead, wanted);
  scored += wanted.size();
  drafted += wanted.size() - count;
  return wanted;
}

// A prefix that is not scored, once.
void Sentence::add_missing(int prefix, std::vector<int>& wanted) const {
  if (!prefixes[prefix].scored && std::find(wanted.begin(), wanted.end(), prefix) == wanted.end())
    wanted.push_back(prefix);
}

std::vector<int> Sentence::waiting() {
  std::vector<int> waiting;
  for (int at : live) add_missing(at, waiting);
  for (int at : live)
    for (int64_t token; (token = forced_after(at)) >= 0 && token != rules_->eos;) {
      at = child(at, static_cast<int32_t>(token));
      add_missing(at, waiting);
    }
  return waiting;
}

// Add the prefixes that the search is expected to come to.
void Sentence::look_ahead(const Lookahead& lookahead, std::vector<int>& wanted) {
  const size_t reach = std::max(lookahead.reach, wanted.size());
  std::vector<std::pair<int, float>> ahead;
  for (int at : live) ahead.emplace_back(at, prefixes[at].score);
  size_t room = beam_ - ended.size();
  for (int i = 0; i < lookahead.steps && step() + i < limit_of(*rules_, row_); i++) {
    const std::vector<Candidate> candidates = predicted(ahead, lookahead.source);
    ahead.clear();
    for (size_t rank = 0; rank < candidates.size(); rank++) {
      const Candidate& one = candidates[rank];
      if (one.token == rules_->eos)
        room -= rank < static_cast<size_t>(beam_) && room > 0;
      else if (ahead.size() < static_cast<size_t>(beam_))
        ahead.emplace_back(child(one.from, one.token), one.score);
    }
    if (room == 0 || ahead.empty()) break;
    const size_t before = wanted.size();
    for (const auto& [at, score] : ahead) add_missing(at, wanted);
    if (wanted.size() > reach) {
      wanted.resize(before);
      break;
    }
  }
}

// The likeliest 2 N candidates after prefixes with their scores.
std::vector<Candidate> Sentence::predicted(const std::vector<std::pair<int, float>>& ahead,
                                           const std::vector<int64_t>& source) const {
  constexpr float kLikely = -0.1f;
  std::vector<Candidate> candidates;
  for (const auto& [from, score] : ahead) {
    const int like = prefixes[from].scored ? from : same_suffix(from);
    if (like >= 0) {
      add_candidates(from, like, score, candidates);
      continue;
    }
    const int32_t token = copied(from, source);
    if (token >= 0)
      candidates.push_back({score + kLikely, static_cast<int>(candidates.size()), from, token});
  }
  keep_best(candidates, count_);
  return candidates;
}

// The scored prefix whose last tokens are most like those of this one, and nearest in length; -1 if
// none has the same last token.
int Sentence::same_suffix(int prefix) const {
  int best = -1, longest = 0, nearest = 0;
  for (int at = 0; at < static_cast<int>(prefixes.size()); at++) {
    if (!prefixes[at].scored) continue;
    int size = 0;
    for (int a = at, b = prefix; size < kLongestSuffix && a >= 0 && b >= 0; size++) {
      if (prefixes[a].token != prefixes[b].token) break;
      a = prefixes[a].parent;
      b = prefixes[b].parent;
    }
    const int apart = std::abs(prefixes[at].depth - prefixes[prefix].depth);
    if (size > longest || (size == longest && size > 0 && apart < nearest)) {
      best = at;
      longest = size;
      nearest = apart;
    }
  }
  return best;
}

// The source token that follows the place where the source is most like the end of this prefix,
// nearest to its own length; -1 where nothing is left.
int32_t Sentence::copied(int prefix, const std::vector<int64_t>& source) const {
  int64_t best = -1;
  int longest = -1, nearest = 0;
  for (int at = 0; at < static_cast<int>(source.size()); at++) {
    int size = 0;
    for (int b = prefix; size < kLongestSuffix && size < at && b >= 0; size++) {
      if (prefixes[b].token != source[at - 1 - size]) break;
      b = prefixes[b].parent;
    }
    if (size == at && at == prefixes[prefix].depth) size++;  // from the very beginning
    const int apart = std::abs(at - prefixes[prefix].depth);
    if (size > longest || (size == longest && apart < nearest)) {
      best = source[at];
      longest = size;
      nearest = apart;
    }
  }
  return static_cast<int32_t>(best);
}

// Drop what does not lead to the chosen prefixes or follow them.
void Sentence::follow(const std::vector<int>& chosen) {
  for (int old : live) {
    for (int at = prefixes[old].first_child; at >= 0;) {
      const int next = prefixes[at].next_sibling;
      if (std::find(chosen.begin(), chosen.end(), at) == chosen.end()) {
        unlink(at);
        drop(at);
      }
      at = next;
    }
    release(old);
  }
}

// Forget a prefix and all that follow it.
void Sentence::drop(int prefix) {
  std::vector<int> waiting{prefix};
  while (!waiting.empty()) {
    const int at = waiting.back();
    waiting.pop_back();
    give(at);
    for (int c = prefixes[at].first_child; c >= 0; c = prefixes[c].next_sibling)
      waiting.push_back(c);
  }
}

// Forget a prefix that nothing follows, and those before it that then lead nowhere.
void Sentence::release(int prefix) {
  while (prefix > 0 && prefixes[prefix].first_child < 0) {
    give(prefix);
    unlink(prefix);
    prefix = prefixes[prefix].parent;
  }
}

void Sentence::unlink(int prefix) {
  int* link = &prefixes[prefixes[prefix].parent].first_child;
  while (*link != prefix) link = &prefixes[*link].next_sibling;
  *link = prefixes[prefix].next_sibling;
}

void Sentence::give(int prefix) {
  if (prefixes[prefix].slot >= 0) free_.push(prefixes[prefix].slot);
  prefixes[prefix].slot = -1;
}

Beams::Beams(Session& session, const Embedding& embedding, const Rules& rules, int beam,
             int32_t start)
    : session_(session), embedding_(embedding), rules_(rules), beam_(beam) {
  const int words = session.stack.vocabulary_size();
  require(embedding.fits(session.stack), "a table of another size than the session's");
  rules.check(session.rows(), words);
  require(start < words, "a special symbol out of range");
  require(beam > 0 && beam < words, "a beam wider than the vocabulary");
  require(rules.max_len < kMost, "an impossible length");
  for (int row = 0; row < session.rows(); row++) sentences.emplace_back(rules_, row, beam, start);
}

void Beams::look_ahead(int row, std::vector<int64_t> source, int steps, int reach) {
  require(row >= 0 && row < static_cast<int>(sentences.size()), "a sentence out of range");
  require(steps >= 0 && steps < (1 << 16) && reach >= 0 && reach < (1 << 16),
          "an impossible reach");
  for (int64_t token : source)
    require(token >= 0 && token < embedding_.vocabulary, "a token that is not in the vocabulary");
  lookaheads_.resize(sentences.size());
  lookaheads_[row] = {std::move(source), steps, static_cast<size_t>(reach) * beam_};
}

int64_t Beams::run(int64_t max_passes) {
  int64_t done = 0;
  while (done < max_passes && pass()) done++;
  return done;
}

// One pass of the model over what the live sentences wait for; false where nothing is left.
bool Beams::pass() {
  require(session_.rows() == static_cast<int>(sentences.size()), "a session of another batch");
  constexpr int kProjected = 48;  // logits of so many entries stay in the second-level cache
  for (const Sentence& sentence : sentences)
    if (sentence.failure != Failure::kNone) return false;
  const Waiting entries = wanted();
  const int total = static_cast<int>(entries.row.size());
  if (total == 0) return false;
  const float* features = run_model(entries);
  static thread_local Buffer<float> buffer;
  const size_t width = session_.stack.shape.width, words = session_.stack.vocabulary_size();
  float* logits = buffer.reserve(std::min(kProjected, total) * words);
  for (int first = 0; first < total; first += kProjected) {
    const int count = std::min(kProjected, total - first);
    session_.stack.logits(count, features + first * width, logits);
    for (int i = 0; i < count; i++)
      rate(logits + i * words, entries.row[first + i], entries.prefix[first + i]);
  }
  for (Sentence& sentence : sentences)
    if (!sentence.done) sentence.advance();
  return true;
}

Beams::Waiting Beams::wanted() {
  Waiting entries;
  int widest = 0;
  for (size_t row = 0; row < sentences.size(); row++) {
    Sentence& sentence = sentences[row];
    if (sentence.done) continue;
    const std::vector<int> chosen =
        sentence.wanted(lookaheads_.empty() ? Lookahead{} : lookaheads_[row]);
    sentence.place(chosen);
    for (int at : chosen) {
      entries.prefix.push_back(at);
      entries.add(static_cast<int>(row), sentence.prefixes[at].slot, sentence.prefixes[at].depth + 1);
    }
    widest = std::max(widest, sentence.slots());
  }
  session_.reserve(widest);
  return entries;
}

// Features [entries][width].
const float* Beams::run_model(const Waiting& entries) {
  static thread_local Buffer<float> embedded, features;
  const size_t total = entries.row.size(), width = session_.stack.shape.width;
  const size_t longest = *std::max_element(entries.upto.begin(), entries.upto.end());
  float* x = embedded.reserve(total * width);
  std::vector<int> paths(total * longest);
  for (size_t i = 0; i < total; i++) {
    const Sentence& sentence = sentences[entries.row[i]];
    const Prefix& prefix = sentence.prefixes[entries.prefix[i]];
    embedding_.embed(prefix.token, prefix.depth, x + i * width);
    sentence.write_slots(entries.prefix[i], &paths[i * longest]);
  }
  Block block = entries.block();
  block.visible.path = paths.data();
  block.visible.stride = longest;
  float* of_entries = features.reserve(total * width);
  session_.run(block, x, of_entries);
  return of_entries;
}

// Store the likeliest tokens after a prefix, constraints applied (DecodingConstraints). NaN where
// the logits are no distribution.
void Beams::rate(float* logits, int row, int prefix) {
  Sentence& sentence = sentences[row];
  const int words = session_.stack.vocabulary_size(), count = 2 * beam_;
  const int step = sentence.prefixes[prefix].depth;
  float* scores = sentence.best_scores(prefix);
  int32_t* tokens = sentence.best_tokens(prefix);
  sentence.prefixes[prefix].scored = true;
  divide(rules_, words, logits);
  const float top = peak_of(logits, words).top;
  const float total = log_sum(logits, words, top);
  if (!std::isfinite(total) || !std::isfinite(top)) {
    std::fill_n(scores, count, std::nanf(""));
    std::fill_n(tokens, count, 0);
    return;
  }
  constrain(rules_, step, logits);
  const int64_t forced = forced_token(rules_, row, step);
  if (forced >= 0) {
    std::fill_n(scores, count, kMinusInfinity);
    std::fill_n(tokens, count, static_cast<int32_t>(forced));
    scores[0] = logits[forced] - top - total;
    return;
  }
  static thread_local std::vector<int> best;
  best_few(logits, words, count, best);
  std::sort(best.begin(), best.end(), [&](int a, int b) { return comes_first(logits, a, b); });
  std::fill_n(scores, count, kMinusInfinity);
  std::fill_n(tokens, count, 0);
  for (size_t i = 0; i < best.size(); i++) {
    tokens[i] = best[i];
    scores[i] = logits[best[i]] - top - total;
  }
}

}  // namespace specdec
