#include "greedy_drafts.h"

#include <algorithm>
#include <vector>

#include "errors.h"
#include "vocabulary.h"

namespace specdec {

void choose(Session& session, const Rules& rules, const int64_t* steps, const float* features,
            int64_t* tokens, bool* sure, bool all) {
  static thread_local Buffer<float> scratch;
  constexpr float kSure = 0.6931f;  // log 2
  const int rows = session.rows(), width = session.stack.shape.width;
  const Matrix* product = nullptr;  // of some tokens; null: of all
  const std::vector<int64_t>* among = nullptr;
  if (!all && rows == 1 && session.preview != nullptr) {
    session.preview->find(features);
    product = &session.preview->product();
    among = &session.preview->tokens();
  } else if (!all && session.list != nullptr) {
    product = &session.list->product();
    among = &session.list->tokens();
  }
  const int words = product != nullptr ? product->out() : session.stack.vocabulary_size();
  float* logits = scratch.reserve(static_cast<size_t>(rows) * words);
  if (product == nullptr)
    session.stack.logits(rows, features, logits);
  else if (words > 0)
    multiply(*product, rows, features, width, logits, words, After::kStore);
  for (int row = 0; row < rows; row++, logits += words) {
    const auto change = [&](int64_t token, float by) {
      int64_t at = token;
      if (among != nullptr) at = std::find(among->begin(), among->end(), token) - among->begin();
      if (at < words) logits[at] += by;
    };
    const int64_t forced = forced_token(rules, row, steps[row]);
    tokens[row] = forced;
    if (sure != nullptr) sure[row] = true;
    if (forced >= 0) continue;
    divide(rules, words, logits);
    if (sure != nullptr) sure[row] = log_sum(logits, words, peak_of(logits, words).top) < kSure;
    change(rules.pad, kMinusInfinity);
    change(rules.unk, -rules.unk_penalty);
    if (steps[row] < rules.min_len && steps[row] >= rules.prefix_width)
      change(rules.eos, kMinusInfinity);
    const int best = peak_of(logits, words).at;
    if (best >= 0) tokens[row] = among != nullptr ? (*among)[best] : best;
  }
}

void draft_greedily(Session& session, const Drafting& how, const Rules& rules,
                    const Hypotheses& hypotheses, int64_t* tokens, int64_t* sizes) {
  static thread_local Buffer<float> embedded, features;
  const Embedding& embedding = how.embedding;
  const int64_t block = how.block;
  const int rows = session.rows();
  const size_t width = session.stack.shape.width;
  rules.check(rows, session.stack.vocabulary_size());
  std::vector<int64_t> steps(rows), chosen(rows);
  Entries entries;
  std::vector<int64_t> token;
  std::vector<uint8_t> wanted;
  const auto put = [&](int of, int64_t at, int64_t what, bool last) {
    require(what >= 0 && what < embedding.vocabulary, "a token that is not in the vocabulary");
    entries.add(of, static_cast<int>(at), static_cast<int>(at) + 1);
    token.push_back(what);
    wanted.push_back(last);
  };
  const auto run = [&] {
    float* x = embedded.reserve(token.size() * width);
    for (size_t i = 0; i < token.size(); i++)
      embedding.embed(token[i], entries.slot[i], x + i * width);
    float* out = features.reserve(token.size() * width);
    session.run(entries.block(), x, out, {wanted.data(), {}, nullptr});
    entries = {};
    token.clear();
    wanted.clear();
  };
  // Tokens accepted since the last draft, of which most are in the cache.
  int64_t most = 0, longest = 0;
  for (int i = 0; i < rows; i++) {
    const int64_t length = steps[i] = bounded(hypotheses.lengths[i], 0, "impossible lengths");
    require(length < hypotheses.columns, "a hypothesis is larger than its buffer");
    most = std::max(most, std::min(block, limit_of(rules, i) + 1 - length));
    longest = std::max(longest, length);
    for (int64_t at = std::min(session.cached[i], length); at <= length; at++) {
      const int64_t known = hypotheses.tokens[i * hypotheses.columns + at];
      put(i, at, known, at == length);
      if (session.list != nullptr) session.list->add(known);
    }
    sizes[i] = 0;
  }
  session.reserve(bounded(longest + most + 1, 0, "impossible lengths"));
  // A token that is not among the chosen ones ends drafts: what each way gives in a second decides.
  bool all = false;
  if (rows == 1 && session.chooses()) {
    const double now = cpu_seconds();
    const auto [kind, length, began] = session.drafted;
    if (kind > 0 && longest > length && now > began)
      session.windows.observe(0, kind, 1, longest - length, now - began);
    session.drafted = {session.windows.plan(0, 2), longest, now};
    all = session.drafted.how == 1;
  }
  // Copied tokens follow the last one in a pass, which chooses the token after each.
  const bool copies = how.copy != nullptr && rows == 1;
  std::vector<int64_t> output(hypotheses.tokens, hypotheses.tokens + (copies ? longest + 1 : 0));
  std::vector<int64_t> copied(block);
  int64_t done = 0;
  bool goes_on = most > 0;
  for (int64_t pass = 0; goes_on && pass < how.steps; pass++) {
    int64_t size = 0;
    if (copies) {
      const int64_t columns = output.size() + 1;
      const Hypotheses own{columns, output.data(), nullptr, steps.data()};
      copy_source(*how.copy, own, block, copied.data(), &size);
      size = std::min(size, most - done - 1);
      for (int64_t w = 0; w < size; w++) put(0, steps[0] + 1 + w, copied[w], true);
    }
    run();
    bool agrees = true;
    for (int64_t w = 0; agrees; w++, done++) {
      choose(session, rules, steps.data(), features.data() + w * width, chosen.data(), nullptr, all);
      goes_on = false;
      for (int i = 0; i < rows; i++) {
        const bool open = sizes[i] == done && (done == 0 || tokens[i * block + done - 1] != rules.eos);
        if (open && chosen[i] >= 0) tokens[i * block + sizes[i]++] = chosen[i];
        goes_on |= open && chosen[i] >= 0 && chosen[i] != rules.eos && done + 1 < most;
        steps[i]++;
      }
      agrees = goes_on && w < size && chosen[0] == copied[w];
      if (copies) output.push_back(chosen[0]);
    }
    for (int i = 0; i < rows; i++) put(i, steps[i], std::max<int64_t>(chosen[i], 0), true);
  }
  for (int i = 0; i < rows; i++)
    session.cached[i] = hypotheses.lengths[i] + std::min(done, sizes[i] + 1);
}

}  // namespace specdec
