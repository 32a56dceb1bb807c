// Entry points for stacks, sessions, verification and drafting. Structures mirror those of
// structures.py field by field; pointers are the caller's and are read during the call alone, but for
// the tables of an Embedding, which are read in every later call that names them.
#include "abi.h"
#include "block_drafter.h"
#include "errors.h"
#include "transformer.h"
#include "verify.h"

namespace specdec {
namespace {

// A block of rows x width tokens, as the torch engine lays it out.
struct RunCall {
  int64_t rows, width, upto;  // upto: slots that attention looks at
  int64_t size;               // C
  const float* x;             // [rows][width][C]
  const int64_t* slots;       // [rows][width]
  const uint8_t* allowed;     // [rows][width][upto], or null where all of them are seen
  // [rows][width], places of the tokens in their sequences, where slots are taken in any order:
  // then a token attends to what it is allowed to in the order of places; or null
  const int64_t* places;
  int64_t wanted;     // last columns whose features are wanted
  int64_t read_count;
  const int32_t* read;
  float* features;  // [rows][wanted][C]
  float* states;    // [rows][width][read_count][C], or null
};

std::vector<int> layers_to_read(const Session& session, int64_t count, const int32_t* read) {
  const int layers = session.stack.shape.layers;
  require(count >= 0 && count <= layers, "more layers to read than there are");
  std::vector<int> wanted(read, read + count);
  for (int layer : wanted) require(layer >= 1 && layer <= layers, "a layer to read out of range");
  return wanted;
}

void run(Session& session, const RunCall& call) {
  const int rows = session.rows(), width = bounded(call.width, 1, "an empty or impossible block");
  require(rows > 0 && call.rows == rows, "a block of another number of rows than the session's");
  require(call.size == session.stack.shape.width, "a block of another width than the stack's");
  require(call.wanted > 0 && call.wanted <= call.width, "more tokens are wanted than there are");
  const std::vector<int> read = layers_to_read(session, call.read_count, call.read);
  require(read.empty() || call.wanted == call.width, "layers to read of some tokens only");
  require(read.empty() || call.states != nullptr, "layers to read without room for them");
  const int tokens = bounded(call.rows * call.width, 1, "an empty or impossible block");
  int slots = bounded(call.upto, 1, "an empty or impossible block");
  std::vector<int> row(tokens), slot(tokens), upto(tokens, slots);
  std::vector<uint8_t> wanted(tokens);
  for (int i = 0; i < tokens; i++) {
    row[i] = i / width;
    slot[i] = bounded(call.slots[i], 0, "a slot out of range");
    wanted[i] = i % width >= width - call.wanted;
    slots = std::max(slots, slot[i] + 1);
  }
  session.reserve(slots);
  std::vector<int> path;
  if (call.places != nullptr) {
    require(call.allowed != nullptr && call.wanted == call.width,
            "places without slots that are seen, or of some tokens only");
    for (int i = 0; i < tokens; i++)
      session.note_place(row[i], slot[i], bounded(call.places[i], 0, "a place out of range"));
    path.resize(static_cast<size_t>(tokens) * call.upto);
    for (int i = 0; i < tokens; i++)
      upto[i] = session.in_order(row[i], call.allowed + i * call.upto, static_cast<int>(call.upto),
                                 path.data() + i * call.upto);
  }
  Block block{tokens, row.data(), slot.data(), Visibility{upto.data()}};
  if (call.places != nullptr)
    block.visible.path = path.data();
  else
    block.visible.allowed = call.allowed;
  block.visible.stride = static_cast<size_t>(call.upto);
  session.run(block, call.x, call.features,
              {call.wanted < call.width ? wanted.data() : nullptr, read, call.states});
}

struct VerifyCall {
  Embedding embedding;
  Rules rules;
  Drafts drafts;
  Hypotheses hypotheses;
  int64_t read_count;
  const int32_t* read;
  int64_t max_iterations;
  StepOutputs outputs;
  const Drafting* drafting;  // between verifications; null: the drafts are given
  int64_t done, windows;     // the answer: iterations, and products as of `verify`
  int64_t window;  // steps that choose among the session's list of tokens; 0: none, -1: as many as pay
};

void iterate(Session& session, VerifyCall& call) {
  require(call.max_iterations > 0 && call.max_iterations < (1 << 20),
          "no or too many iterations");
  const std::vector<int> read = layers_to_read(session, call.read_count, call.read);
  require(read.empty() || call.outputs.states != nullptr, "layers to read without room for them");
  require(session.rows() > 0 && call.drafts.rows == session.rows(),
          "drafts of another number of rows than the session's");
  Propose propose;
  if (call.drafting != nullptr) {
    const Drafting& how = *call.drafting;
    how.check(session.rows());
    require(call.drafts.width == how.block && call.outputs.drafts != nullptr,
            "drafts of another width than the block");
    require(how.drafter == nullptr || how.drafter->read_layers == 0 || how.states == nullptr ||
                (static_cast<size_t>(how.drafter->read_layers) == read.size() &&
                 how.drafter->stack.shape.width == session.stack.shape.width),
            "a drafter that reads other hidden states");
    propose = [&how, &call](const Hypotheses& of, int64_t* tokens, int64_t* sizes) {
      how.propose(of, &call.rules, tokens, sizes);
    };
  }
  // Greedy drafts chose among a list of their own.
  const bool greedy = call.drafting != nullptr && !call.drafting->drafter && call.drafting->session;
  call.windows = 0;
  call.done = verify(session,
                     {call.embedding, call.rules, call.drafts, call.hypotheses, read, call.outputs},
                     propose, static_cast<int>(call.max_iterations),
                     greedy ? 0 : bounded(call.window, -1, "a window of impossible length"),
                     call.windows);
}

Norm norm_of(int width, const float* weight, const float* bias, float epsilon) {
  Norm norm;
  bounded(width, 1, "a norm without width");
  norm.width = width;
  norm.epsilon = epsilon;
  norm.weight = Buffer<float>(width);
  norm.bias = Buffer<float>(width);
  std::copy_n(weight, width, norm.weight.data());
  std::copy_n(bias, width, norm.bias.data());
  return norm;
}

SharedMatrix shared(const void* matrix) { return *static_cast<const SharedMatrix*>(matrix); }

}  // namespace

extern "C" {

SPECDEC_API int specdec_stack_new(const Shape* shape, void** stack) {
  return guarded([&] { *stack = new Stack(*shape); });
}

SPECDEC_API void specdec_stack_free(void* stack) { delete static_cast<Stack*>(stack); }

SPECDEC_API int specdec_stack_matrix(void* stack, int layer, int part, const void* matrix) {
  return guarded([&] { static_cast<Stack*>(stack)->set_matrix(layer, part, shared(matrix)); });
}

SPECDEC_API int specdec_stack_norm(void* stack, int layer, int part, int width, const float* weight,
                                   const float* bias, float epsilon) {
  return guarded([&] {
    static_cast<Stack*>(stack)->set_norm(layer, part, norm_of(width, weight, bias, epsilon));
  });
}

SPECDEC_API int specdec_stack_finish(void* stack) {
  return guarded([&] { static_cast<Stack*>(stack)->finish(); });
}

// x: [rows][source][width].
SPECDEC_API int specdec_encode(const void* stack, int rows, int source, int width, float* x,
                               const uint8_t* hidden) {
  return guarded([&] {
    const auto& self = *static_cast<const Stack*>(stack);
    bounded(rows, 1, "an empty batch");
    bounded(source, 1, "an empty batch");
    bounded(int64_t{rows} * source, 1, "a batch of impossible size");
    require(width == self.shape.width, "embeddings of another width than the stack's");
    require(self.finished, "the weights are not complete");
    self.encode(rows, source, x, hidden);
  });
}

// features: [count][width].
SPECDEC_API int specdec_logits(const void* stack, int count, int width, const float* features,
                               float* logits) {
  return guarded([&] {
    const auto& self = *static_cast<const Stack*>(stack);
    bounded(count, 1, "no features");
    require(width == self.shape.features, "features of another width than the vocabulary's");
    self.logits(count, features, logits);
  });
}

SPECDEC_API int specdec_session_new(const void* stack, void** session) {
  return guarded([&] { *session = new Session(*static_cast<const Stack*>(stack)); });
}

SPECDEC_API void specdec_session_free(void* session) { delete static_cast<Session*>(session); }

// states: [rows][source][width].
SPECDEC_API int specdec_session_open(void* session, int rows, int source, int width,
                                     const float* states, const uint8_t* hidden, int capacity) {
  return guarded([&] {
    auto& self = *static_cast<Session*>(session);
    for (int count : {rows, source, capacity}) bounded(count, 1, "an empty batch");
    bounded(int64_t{rows} * source, 1, "a batch of impossible size");
    require(!self.stack.shape.cross || width == self.stack.shape.source,
            "encoder states of another width than the decoder reads");
    self.open(rows, source, states, hidden, capacity);
  });
}

SPECDEC_API int specdec_session_select(void* session, int count, const int64_t* rows) {
  return guarded([&] {
    auto& self = *static_cast<Session*>(session);
    require(count >= 0 && count <= self.rows(), "more rows to keep than there are");
    self.select(count, rows);
  });
}

// The list of greedy search, which grows by tokens that were missed, at most so many.
SPECDEC_API int specdec_session_list(void* session, int64_t count, const int64_t* tokens, int most) {
  return guarded([&] {
    auto& self = *static_cast<Session*>(session);
    require(self.stack.finished && self.stack.plain(), "a stack without a vocabulary of its own");
    bounded(count, 1, "an empty list of tokens");
    bounded(most, 1, "a list without room");
    self.list = std::make_unique<VocabularyList>(self.stack.vocabulary, count, tokens, most);
  });
}

// The preview of a lone row, of so many tokens; SharedMatrix each.
SPECDEC_API int specdec_session_preview(void* session, const void* projection, const void* narrow,
                                        int likeliest) {
  return guarded([&] {
    auto& self = *static_cast<Session*>(session);
    require(self.stack.finished && self.stack.plain(), "a stack without a vocabulary of its own");
    self.preview = std::make_unique<VocabularyPreview>(
        self.stack.vocabulary, shared(projection), shared(narrow),
        bounded(likeliest, 1, "a preview of no tokens"));
  });
}

// Where features are noted, [room][width], with how many there were; null for nowhere.
SPECDEC_API int specdec_session_observe(void* session, int64_t room, float* features,
                                        int64_t* noted) {
  return guarded([&] {
    require((features == nullptr) == (noted == nullptr), "features without their number");
    bounded(room, 0, "impossible room for features");
    static_cast<Session*>(session)->observed = {room, features, noted};
  });
}

SPECDEC_API int specdec_session_list_add(void* session, int64_t count, const int64_t* tokens) {
  return guarded([&] {
    auto& self = *static_cast<Session*>(session);
    require(self.list != nullptr, "a session without a list of tokens");
    bounded(count, 0, "a list of impossible length");
    for (int64_t i = 0; i < count; i++) self.list->add(tokens[i]);
  });
}

SPECDEC_API int specdec_session_run(void* session, const RunCall* call) {
  return guarded([&] { run(*static_cast<Session*>(session), *call); });
}

SPECDEC_API int specdec_verify(void* session, VerifyCall* call) {
  return guarded([&] { iterate(*static_cast<Session*>(session), *call); });
}

// mask: [width]. lists: it may draft from lists of words, for which its vocabulary is copied.
SPECDEC_API int specdec_drafter_new(const void* stack, int width, const float* mask, int pad,
                                    int lists, void** drafter) {
  return guarded([&] {
    require(width == static_cast<const Stack*>(stack)->shape.width,
            "wrong size: the mask's embedding");
    *drafter = new BlockDrafter(*static_cast<const Stack*>(stack), mask, pad, lists != 0);
  });
}

SPECDEC_API void specdec_drafter_free(void* drafter) { delete static_cast<BlockDrafter*>(drafter); }

// What hidden states of so many layers add: [2 C][in], to tokens and to masks; without layers, of
// blockwise heads, [masks C][in], after a hidden layer [in][C] with an activation.
SPECDEC_API int specdec_drafter_states(void* drafter, int read_layers, const void* hidden,
                                       int activation, const void* matrix) {
  return guarded([&] {
    auto& self = *static_cast<BlockDrafter*>(drafter);
    const int width = self.stack.shape.width;
    const SharedMatrix states = shared(matrix), first = hidden ? shared(hidden) : nullptr;
    require(read_layers > 0 && read_layers < 1024, "no layers to read");
    require(activation >= 0 && activation < static_cast<int>(Activation::kCount),
            "an activation of unknown kind");
    require(self.sees_tokens() ? first == nullptr : first && first->in() == read_layers * width,
            "wrong size: a hidden layer of heads");
    const int in = first == nullptr ? read_layers * width : first->out();
    const bool fits = self.sees_tokens() ? states->out() == 2 * width : states->out() % width == 0;
    require(fits && states->in() == in, "wrong size: products of hidden states");
    self.hidden = {first, static_cast<Activation>(activation)};
    self.of_states = states;
    self.read_layers = read_layers;
  });
}

// of_mask: [width][C] and its bias; of_state: [width][width]; of_token, for_token: [words][width].
SPECDEC_API int specdec_drafter_chain(void* drafter, int width, const float* of_mask,
                                      const float* of_mask_bias, const float* of_state,
                                      const float* of_token, const float* for_token) {
  return guarded([&] {
    auto& self = *static_cast<BlockDrafter*>(drafter);
    bounded(width, 1, "a chain without width");
    Chain chain;
    const size_t count = static_cast<size_t>(self.stack.vocabulary_size()) * width;
    chain.of_mask = Matrix(width, self.stack.shape.width, of_mask, of_mask_bias, Format::kFloat32);
    chain.of_state = Matrix(width, width, of_state, nullptr, Format::kFloat32);
    chain.of_token = Buffer<float>(count);
    chain.for_token = Buffer<uint16_t>(count);
    std::copy_n(of_token, count, chain.of_token.data());
    for (size_t i = 0; i < count; i++) chain.for_token.data()[i] = to_bf16(for_token[i]);
    chain.width = width;
    self.chain = std::move(chain);
  });
}

// Lists of words for the drafts of the session's batch. sizes: [rows]; ids: as many as all sizes
// together, as WordList::open takes them.
SPECDEC_API int specdec_session_words(void* session, const void* drafter, int rows,
                                      const int64_t* sizes, const int64_t* ids) {
  return guarded([&] {
    auto& self = *static_cast<Session*>(session);
    const auto& of = *static_cast<const BlockDrafter*>(drafter);
    require(&self.stack == &of.stack && rows == self.rows(),
            "lists of words of another drafter, or of another number of rows");
    self.open_words(of.vocabulary, sizes, ids);
  });
}

// tokens: [rows][block]; sizes: [rows].
SPECDEC_API int specdec_draft(const Drafting* how, int rows, const Hypotheses* hypotheses,
                              int64_t* tokens, int64_t* sizes) {
  return guarded([&] {
    how->check(rows);
    bounded(hypotheses->columns, 1, "hypotheses of an impossible length");
    how->propose(*hypotheses, nullptr, tokens, sizes);
  });
}

}  // extern "C"
}  // namespace specdec
