#include "block_drafter.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "errors.h"
#include "greedy_drafts.h"
#include "vocabulary.h"

namespace specdec {

namespace {

float dot_bf16(const uint16_t* row, const float* state, int width) {
  Floats even{}, odd{};
  int h = 0;
  for (; h + 2 * LANES <= width; h += 2 * LANES) {
    even += load_bf16(row + h) * load(state + h);
    odd += load_bf16(row + h + LANES) * load(state + h + LANES);
  }
  float total = sum(even + odd);
  for (; h < width; h++) total += from_bf16(row[h]) * state[h];
  return total;
}

// How many tokens of a draft to keep, by how likely they are accepted.
class Ending {
 public:
  Ending(const Drafting& drafting, int masks)
      : masks_(masks), confidence_(drafting.confidence), costs_(drafting.costs) {}

  // Takes in the next token, which is right with the chance that is computed if those before it are;
  // false where neither it nor any after it is kept.
  template <typename Chance>
  bool take(const Chance& chance) {
    taken_++;
    sure_ *= confidence_ > 0 || costs_ != nullptr ? chance() : 1;
    if (!(sure_ >= confidence_) || std::isnan(sure_)) return false;
    if (costs_ == nullptr) {
      kept_ = taken_;
      return true;
    }
    expected_ += sure_;
    const float gain = expected_ - costs_[taken_];
    if (gain > best_) {
      best_ = gain;
      kept_ = taken_;
    }
    // All that follow together can add no more than this.
    return expected_ + sure_ * static_cast<float>(masks_ - taken_) - costs_[taken_] > best_;
  }

  int kept() const { return kept_; }

 private:
  const int masks_;
  const float confidence_;
  const float* costs_;
  float sure_ = 1, expected_ = 0, best_ = 0;
  int taken_ = 0, kept_ = 0;
};

// A row's block with a chain, from the left. Returns how many tokens were chosen.
int follow_chain(const Drafting& drafting, int masks, const float* of_mask, const Rated& rated,
                 int64_t previous, int64_t* tokens) {
  static thread_local std::vector<int> few;
  static thread_local std::vector<float> totals;
  static thread_local Buffer<float> states;
  const Chain& chain = drafting.drafter->chain;
  const float* logits = rated.logits;
  const int words = rated.words, width = chain.width;
  const auto id_of = [&](int word) { return rated.id_of(word); };
  float* state = states.reserve(2 * static_cast<size_t>(width));
  float* next = state + width;
  Ending ending(drafting, masks);
  for (int j = 0; j < masks; j++, logits += words, of_mask += width) {
    best_few(logits, words, std::min<int>(drafting.candidates, words), few);
    for (int word : few) {
      const auto* row = chain.for_token.data() + id_of(word) * width;
      for (int h = 0; h < width; h += 32) __builtin_prefetch(row + h);
    }
    const float* past = chain.of_token.data() + static_cast<size_t>(previous) * width;
    for (int h = 0; h < width; h++) next[h] = of_mask[h] + past[h];
    if (j > 0) multiply(chain.of_state, 1, state, width, next, width, After::kAdd);
    int h = 0;
    for (; h + LANES <= width; h += LANES) store(state + h, hyperbolic_tangent(load(next + h)));
    for (; h < width; h++) state[h] = std::tanh(next[h]);
    totals.clear();
    for (int word : few)
      totals.push_back(
          logits[word] +
          dot_bf16(chain.for_token.data() + id_of(word) * width, state, width));
    if (few.empty()) break;
    const auto top = std::max_element(totals.begin(), totals.end());
    previous = tokens[j] = static_cast<int64_t>(id_of(few[top - totals.begin()]));
    const auto chance = [&] {
      float total = 0;
      for (float one : totals) total += std::exp(one - *top);
      return 1 / total;
    };
    if (!ending.take(chance)) break;
  }
  return ending.kept();
}

// A row's block without one: the likeliest token of each mask.
int likeliest(const Drafting& drafting, int masks, const Rated& rated, int64_t* tokens) {
  const float* logits = rated.logits;
  const int words = rated.words;
  Ending ending(drafting, masks);
  for (int j = 0; j < masks; j++, logits += words) {
    const Peak peak = peak_of(logits, words);
    if (peak.at < 0) break;
    tokens[j] = static_cast<int64_t>(rated.id_of(peak.at));
    if (!ending.take([&] { return std::exp(-log_sum(logits, words, peak.top)); })) break;
  }
  return ending.kept();
}

}  // namespace

BlockDrafter::BlockDrafter(const Stack& stack, const float* embedding, int pad, bool lists)
    : stack(stack), mask(stack.shape.width), pad(pad) {
  std::copy_n(embedding, stack.shape.width, mask.data());
  require(pad >= 0 && pad < stack.vocabulary_size(),
          "the padding symbol is not in the vocabulary");
  if (lists) vocabulary = std::make_shared<const MatrixRows>(stack.vocabulary);
}

namespace {

// A draft after the hypotheses, of so many masks.
struct Call {
  const BlockDrafter& drafter;
  Session& session;
  const Drafting& how;
  const Hypotheses& hypotheses;
  const int rows, masks;

  // The state that predicted a row's last token.
  const float* last_state(int row, int wide) const {
    const int length = bounded(hypotheses.lengths[row], 0, "impossible lengths");
    require(length < how.state_stride, "hidden states of another number than tokens");
    return how.states + (row * how.state_stride + length) * wide;
  }
};

// Tokens accepted since the last draft and masks of all rows, in one list. Position 0 holds the start
// symbol.
struct Columns : Entries {
  std::vector<int> fresh;       // [B], tokens of a row
  std::vector<size_t> first;    // [B], where a row begins
  std::vector<uint8_t> wanted;  // masks
};

Columns lay_out(const Call& call) {
  Columns columns;
  for (int row = 0; row < call.rows; row++) {
    const int64_t length = bounded(call.hypotheses.lengths[row], 0, "impossible lengths");
    // The last token may be another than at the last draft, where that was no more than likely.
    const int64_t known = length + 1, cached = std::min(call.session.cached[row], length);
    require(cached >= 0 && known + call.masks < kMost &&
                length < call.hypotheses.columns,
            "a hypothesis is larger than its buffer");
    columns.first.push_back(columns.row.size());
    columns.fresh.push_back(static_cast<int>(known - cached));
    for (int64_t at = call.drafter.sees_tokens() ? cached : known; at < known + call.masks; at++) {
      columns.add(row, static_cast<int>(at),
                  static_cast<int>(at < known ? at + 1 : known + call.masks));
      columns.wanted.push_back(at >= known);
    }
  }
  return columns;
}

void embed(const Call& call, const Columns& columns, float* x) {
  const Embedding& embedding = call.how.embedding;
  const Hypotheses& hypotheses = call.hypotheses;
  const int64_t width = embedding.width;
  for (size_t i = 0; i < columns.row.size(); i++, x += width) {
    const int row = columns.row[i], at = columns.slot[i];
    if (!columns.wanted[i]) {
      embedding.embed(hypotheses.tokens[row * hypotheses.columns + at], at, x);
      continue;
    }
    std::copy_n(call.drafter.mask.data(), width, x);
    if (embedding.positions == nullptr) continue;
    const float* place = embedding.positions + std::min<int64_t>(at, embedding.places - 1) * width;
    for (int64_t c = 0; c < width; c++) x[c] += place[c];
  }
}

// Add the products of the verifier's hidden states to x, of tokens and masks.
void add_states(const Call& call, const Columns& columns, float* x) {
  static thread_local Buffer<float> normed_states, added_states;
  const BlockDrafter& drafter = call.drafter;
  const int width = drafter.stack.shape.width, wide = drafter.read_layers * width;
  const Norm plain{};
  for (int row = 0; row < call.rows; row++) {
    const int fresh = columns.fresh[row], size = std::max(fresh, 1);
    const float* states = call.last_state(row, wide) - (size - 1) * wide;
    float* normed = normed_states.reserve(static_cast<size_t>(size) * wide);
    float* added = added_states.reserve(static_cast<size_t>(size) * 2 * width);
    normalise(plain, size * drafter.read_layers, width, states, normed);
    multiply(*drafter.of_states, size, normed, wide, added, 2 * width, After::kStore);
    float* mine = x + columns.first[row] * width;
    for (int i = 0; i < fresh; i++)
      for (int c = 0; c < width; c++) mine[i * width + c] += added[i * 2 * width + c];
    const float* last = added + (size - 1) * 2 * width + width;
    for (int k = 0; k < call.masks; k++)
      for (int c = 0; c < width; c++) mine[(fresh + k) * width + c] += last[c];
  }
}

// The same of blockwise heads: what the last state of each row adds to its masks.
void add_heads(const Call& call, float* x) {
  static thread_local Buffer<float> last_states, inner_states, added_states;
  const BlockDrafter& drafter = call.drafter;
  const HiddenLayer& hidden = drafter.hidden;
  const int rows = call.rows, width = drafter.stack.shape.width, wide = drafter.read_layers * width;
  const int inner = drafter.of_states->in(), heads = drafter.of_states->out();
  float* last = last_states.reserve(static_cast<size_t>(rows) * wide);
  float* added = added_states.reserve(static_cast<size_t>(rows) * heads);
  for (int row = 0; row < rows; row++)
    std::copy_n(call.last_state(row, wide), wide, last + static_cast<size_t>(row) * wide);
  const size_t count = static_cast<size_t>(rows) * inner;
  float* units = inner_states.reserve(count + LANES);  // whole vectors
  multiply(*hidden.product, rows, last, wide, units, inner,
           begins_with_relu(hidden.activation) ? After::kRelu : After::kStore);
  activate(hidden.activation, count, units);
  multiply(*drafter.of_states, rows, units, inner, added, heads, After::kStore);
  const int64_t size = int64_t{call.masks} * width;
  for (int row = 0; row < rows; row++) {
    float* mine = x + row * size;
    for (int64_t i = 0; i < size; i++)
      mine[i] = mine[i] + added[int64_t{row} * heads + i] + last[row * wide + i % width];
  }
}

// Logits of masks, over the words that their rows may draft.
class Logits {
 public:
  Logits(const BlockDrafter& drafter, const Session& session, int masks, const float* features)
      : session_(session) {
    static thread_local Buffer<float> logits;
    const Stack& stack = drafter.stack;
    const WordList* lists = session.words();
    const Matrix* listed = lists == nullptr ? nullptr : lists->product();
    columns_ = listed == nullptr ? stack.vocabulary_size() : listed->out();
    logits_ = logits.reserve(static_cast<size_t>(masks) * columns_);
    if (listed != nullptr) {
      multiply(*listed, masks, features, listed->in(), logits_, columns_, After::kStore);
      return;
    }
    stack.logits(masks, features, logits_);
    for (int i = 0; i < masks; i++)
      logits_[static_cast<size_t>(i) * columns_ + drafter.pad] = kMinusInfinity;
  }

  // Of a row's masks, until those of another row are asked for.
  Rated of_row(int row, int masks) const {
    static thread_local Buffer<float> scratch;
    float* mine = logits_ + static_cast<size_t>(row) * masks * columns_;
    if (session_.words() == nullptr) return {mine, columns_, nullptr};
    return session_.words()->of_row(session_.list_of(row), masks, columns_, mine, scratch);
  }

 private:
  const Session& session_;
  int columns_;
  float* logits_;
};

// Features of all masks, row by row.
const float* run_masks(const Call& call) {
  static thread_local Buffer<float> embedded, features;
  const BlockDrafter& drafter = call.drafter;
  const int width = drafter.stack.shape.width;
  const Columns columns = lay_out(call);
  const size_t total = columns.row.size();
  call.session.reserve(*std::max_element(columns.upto.begin(), columns.upto.end()));
  float* x = embedded.reserve(total * width);
  embed(call, columns, x);
  if (call.how.states != nullptr && drafter.read_layers > 0) {
    if (drafter.sees_tokens())
      add_states(call, columns, x);
    else
      add_heads(call, x);
  }
  float* of_masks = features.reserve(static_cast<size_t>(call.rows) * call.masks * width);
  const uint8_t* wanted = drafter.sees_tokens() ? columns.wanted.data() : nullptr;
  call.session.run(columns.block(), x, of_masks, {wanted, {}, nullptr});
  for (int row = 0; row < call.rows; row++) call.session.cached[row] = call.hypotheses.lengths[row] + 1;
  return of_masks;
}

void run_drafter(const Call& call, int64_t* all_tokens, int64_t* sizes) {
  static thread_local Buffer<float> of_mask;
  const Chain& chain = call.drafter.chain;
  const int rows = call.rows, masks = call.masks;
  const float* features = run_masks(call);
  const Logits logits(call.drafter, call.session, rows * masks, features);
  if (chain.width > 0)
    multiply(chain.of_mask, rows * masks, features, call.drafter.stack.shape.width,
             of_mask.reserve(static_cast<size_t>(rows) * masks * chain.width), chain.width,
             After::kStore);
  for (int row = 0; row < rows; row++) {
    const Hypotheses& of = call.hypotheses;
    const int64_t previous = of.tokens[row * of.columns + of.lengths[row]];
    require(previous >= 0 && previous < call.drafter.stack.vocabulary_size(),
            "a token that is not in the vocabulary");
    const Rated rated = logits.of_row(row, masks);
    int64_t* tokens = all_tokens + row * call.how.block;
    const size_t first = static_cast<size_t>(row) * masks * chain.width;
    sizes[row] = chain.width > 0
                     ? follow_chain(call.how, masks, of_mask.data() + first, rated, previous, tokens)
                     : likeliest(call.how, masks, rated, tokens);
  }
}

}  // namespace

void Drafting::check(int rows) const {
  bounded(block, 1, "no or too many tokens to draft");
  bounded(steps, 0, "no or too many tokens to draft");
  if (copy != nullptr) copy->check(rows);
  if (drafter == nullptr && copy != nullptr && session == nullptr) return;
  if (drafter == nullptr) {
    require(steps >= 1 && steps <= block, "no or too many tokens to draft");
    require(session != nullptr, "drafts without a drafter");
    return require(session->rows() == rows && rows >= 1 && embedding.fits(session->stack),
                   "a session or a table of another size than the rows'");
  }
  require(session != nullptr && &session->stack == &drafter->stack && session->rows() == rows &&
              rows >= 1 && embedding.fits(drafter->stack),
          "a session or a table of another size than the drafter's");
  require(states == nullptr || (state_stride > 0 && state_stride < kMost),
          "rows that are impossibly far apart");
  require(positions < kMost, "an impossible number of positions");
  require(drafter->chain.width == 0 || candidates > 0, "a chain without candidates");
  require(drafter->sees_tokens() ||
              (drafter->of_states != nullptr &&
               block * drafter->stack.shape.width <= drafter->of_states->out()),
          "more masks than heads");
}

void Drafting::propose(const Hypotheses& hypotheses, const Rules* rules, int64_t* tokens,
                       int64_t* sizes) const {
  if (drafter == nullptr && session != nullptr) {
    require(rules != nullptr, "greedy drafts without the verifier's rules");
    return draft_greedily(*session, *this, *rules, hypotheses, tokens, sizes);
  }
  if (copy != nullptr) return copy_source(*copy, hypotheses, block, tokens, sizes);
  const int rows = session->rows();
  const auto ends = std::minmax_element(hypotheses.lengths, hypotheses.lengths + rows);
  int64_t masks = block;
  if (positions >= 0) masks = std::min(masks, positions - 1 - *ends.second);
  // Blockwise heads have nothing to read yet.
  const bool unread = drafter->hidden.product != nullptr && (states == nullptr || *ends.first == 0);
  std::fill_n(sizes, rows, 0);
  if (masks < 1 || unread) return;
  run_drafter({*drafter, *session, *this, hypotheses, rows, static_cast<int>(masks)}, tokens, sizes);
}

}  // namespace specdec
