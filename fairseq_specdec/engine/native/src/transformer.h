// Encoders and decoders of fairseq's Transformer (Vaswani et al. 2017), pre-norm and post-norm.
//
// A Stack holds weights, which never change after `finish`, so that threads share it. A Session is
// one batch of a decoder: its cache. Sessions of one Stack run at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "activation.h"
#include "attention.h"
#include "memory.h"
#include "norm.h"
#include "product.h"
#include "vocabulary_list.h"
#include "word_list.h"

namespace specdec {

// The products of a stack, as the ABI numbers them. kVocabulary is the stack's, the others a
// layer's; the cross ones are there where the shape has them.
enum Part {
  kSelfQueryKeyValue,
  kSelfOut,
  kCrossQuery,
  kCrossKeyValue,
  kCrossOut,
  kInner,
  kOuter,
  kLayerParts,
  kVocabulary = kLayerParts
};

// Likewise its norms; kFinalNorm is the stack's and may be missing.
enum NormPart { kSelfNorm, kCrossNorm, kInnerNorm, kLayerNorms, kFinalNorm = kLayerNorms };

struct Layer {
  SharedMatrix parts[kLayerParts];
  Norm norms[kLayerNorms];
};

struct Shape {
  int layers, width, inner, heads;
  int decoder;   // may have sessions
  int cross;     // has cross-attention
  int pre_norm;  // else norms come after the residual sum
  int activation;
  int source;    // width of the encoder states that a decoder reads
  int features;  // width of what the vocabulary reads: another than `width` behind a projection
};

// Rows and columns of a matrix.
struct MatrixSize {
  int out, in;
};

class Stack {
 public:
  explicit Stack(const Shape& shape);

  // Throw std::invalid_argument for a layer or part that the shape has not.
  void set_matrix(int layer, int part, SharedMatrix matrix);
  void set_norm(int layer, int part, Norm norm);
  // Throws where something is missing, or has another size than the shape asks for.
  void finish();

  // Encode x [rows][source][width] in place; hidden [rows][source] marks padding, or null.
  void encode(int rows, int source, float* x, const uint8_t* hidden) const;

  // logits[count][vocabulary] of features[count][shape.features].
  void logits(int count, const float* features, float* logits) const;

  int head_width() const { return shape.width / shape.heads; }
  int vocabulary_size() const { return vocabulary ? vocabulary->out() : 0; }
  // Whether the last norm's output is what the vocabulary reads.
  bool plain() const { return vocabulary != nullptr && shape.features == shape.width; }

  Shape shape;
  std::vector<Layer> layers;
  Norm final_norm;
  SharedMatrix vocabulary;
  bool finished = false;

 private:
  MatrixSize expected(int part) const;
};

// What a stack computes with besides its weights; grows to what was needed most.
struct Scratch {
  Buffer<float> x, normed, attended, fused, inner, attention;
  std::vector<int> upto;
};

// A block: tokens of several rows, those of a row one after the other.
struct Block {
  int tokens;
  const int* row;   // [tokens], live row; ascending
  const int* slot;  // [tokens], where its key and value go
  Visibility visible;      // over the self-attention's slots; [tokens] entries
};

// The entries of a block; each sees the slots 0 .. upto - 1 of its row.
struct Entries {
  std::vector<int> row, slot, upto;

  void add(int of, int at, int sees) {
    row.push_back(of);
    slot.push_back(at);
    upto.push_back(sees);
  }
  Block block() const {
    return {static_cast<int>(row.size()), row.data(), slot.data(), Visibility{upto.data()}};
  }
};

// What a run does besides; each of it may be left out.
struct RunExtras {
  const uint8_t* wanted = nullptr;  // marks the tokens whose features are wanted; null for all
  std::vector<int> read;  // layers, counted from 1, whose outputs go side by side into states
  float* states = nullptr;
};

struct Ragged;

class Session {
 public:
  explicit Session(const Stack& stack) : stack(stack) {}

  // Begin a batch: rows of `source` encoder states [rows][source][shape.source], of which `hidden` marks
  // padding (or null), with room for `capacity` slots.
  void open(int rows, int source, const float* states, const uint8_t* hidden, int capacity);
  void reserve(int capacity);
  // Keep these live rows, ascending. Nothing is copied.
  void select(int count, const int64_t* rows);

  // Run embedded tokens x [tokens][width]; features [wanted tokens][width] after the final norm.
  void run(const Block& block, const float* x, float* features, const RunExtras& extras = {});

  // The place of a slot's token in its sequence; without a note it is the slot's number.
  void note_place(int row, int slot, int place);
  // The slots [count] that are marked, by their places; returns how many (1 at least: slot 0).
  int in_order(int row, const uint8_t* marked, int count, int* slots) const;

  int rows() const { return static_cast<int>(physical_.size()); }
  int capacity() const { return capacity_; }

  const Stack& stack;
  std::vector<int64_t> cached;  // of live rows: slots that hold accepted tokens, for a drafter
  // What greedy search chooses among for some steps, and by which a lone row does; or null. They stay
  // from batch to batch.
  std::unique_ptr<VocabularyList> list;
  std::unique_ptr<VocabularyPreview> preview;
  bool chooses() const { return list != nullptr || (preview != nullptr && rows() == 1); }
  WindowPlanner windows;
  struct {
    int how = 0;  // 1 among all tokens, 2 by the preview; 0 for none
    int64_t length = 0;
    double began = 0;
  } drafted;  // the last draft of a lone row

  // Where the features of decided tokens are noted for a preview, some of each batch, until they are
  // [room][width]; or null. Several sessions may note theirs in one place.
  struct {
    int64_t room = 0;
    float* features = nullptr;
    int64_t* noted = nullptr;
  } observed;
  void observe(const float* features);

  // Lists of words for the drafts of this batch, all of whose rows are live.
  void open_words(std::shared_ptr<const MatrixRows> vocabulary, const int64_t* sizes,
                  const int64_t* ids);
  // Those that a row drafts from; or null.
  const WordList* words() const { return words_.is_open() ? &words_ : nullptr; }
  int list_of(int row) const { return physical_[row]; }

 private:
  void write_source(int layer, const Ragged& ragged, const float* states);
  void write(int layer, const Block& block, const float* fused);
  void cross_attention(int layer, const Block& block, float* x);
  void attend(const KeyValues& cache, const Block& block, const Visibility& visible,
              const float* queries, size_t stride, float* out);
  void keep(int layer, const Block& block, const float* x, const RunExtras& extras) const;

  std::vector<KeyValues> self_, cross_;
  std::vector<int> physical_;  // of live rows: where their caches lie
  std::vector<int> source_;    // of all rows: their tokens without padding
  std::vector<std::vector<int>> places_;  // of all rows: of their first slots
  WordList words_;
  int capacity_ = 0;    // slots of a row
  int most_slots_ = 0;  // that a batch ever had
  int observed_ = 0;    // features of this batch
  Scratch scratch_;
};

}  // namespace specdec
