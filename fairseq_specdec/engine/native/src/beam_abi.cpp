// Entry points for beam search.
#include "abi.h"
#include "beam.h"
#include "errors.h"

namespace specdec {
namespace {

struct BeamSetup {
  Embedding embedding;  // read until the search is over
  Rules rules;
  int64_t beam, start;
};

// What is known of a sentence.
struct BeamFacts {
  int64_t done, failure, passes, steps, scored, drafted, used;
  int64_t live, depth;   // hypotheses that have not ended, and their tokens
  int64_t ended;
};

const Sentence& sentence_of(const void* beams, int row) {
  const Beams& self = *static_cast<const Beams*>(beams);
  require(row >= 0 && row < static_cast<int>(self.sentences.size()),
          "a sentence out of range");
  return self.sentences[row];
}

}  // namespace

extern "C" {

SPECDEC_API int specdec_beams_new(void* session, const BeamSetup* setup, void** beams) {
  return guarded([&] {
    require(setup->beam > 0 && setup->beam < (1 << 20), "an impossible beam");
    *beams = new Beams(*static_cast<Session*>(session), setup->embedding, setup->rules,
                       static_cast<int>(setup->beam),
                       bounded(setup->start, 0, "a special symbol out of range"));
  });
}

SPECDEC_API void specdec_beams_free(void* beams) { delete static_cast<Beams*>(beams); }

SPECDEC_API int specdec_beams_look_ahead(void* beams, int row, int count, const int64_t* source,
                                         int steps, int reach) {
  return guarded([&] {
    bounded(count, 0, "a source of impossible length");
    static_cast<Beams*>(beams)->look_ahead(row, {source, source + count}, steps, reach);
  });
}

SPECDEC_API int specdec_beams_run(void* beams, int64_t max_passes, int64_t* passes) {
  return guarded([&] { *passes = static_cast<Beams*>(beams)->run(max_passes); });
}

SPECDEC_API int specdec_beams_facts(const void* beams, int row, BeamFacts* facts) {
  return guarded([&] {
    const Sentence& sentence = sentence_of(beams, row);
    *facts = {sentence.done,
              static_cast<int64_t>(sentence.failure),
              sentence.passes,
              sentence.steps,
              sentence.scored,
              sentence.drafted,
              sentence.used,
              static_cast<int64_t>(sentence.live.size()),
              sentence.step(),
              static_cast<int64_t>(sentence.ended.size())};
  });
}

// A hypothesis that is live, best first, or that ended; length: of its tokens before </s>. tokens:
// [room]; scores: [room + 1], sums up to each token, </s> of one that ended included.
SPECDEC_API int specdec_beams_hypothesis(const void* beams, int row, int ended, int number, int room,
                                         int64_t* tokens, float* scores, int64_t* length) {
  return guarded([&] {
    const Sentence& sentence = sentence_of(beams, row);
    const size_t count = ended ? sentence.ended.size() : sentence.live.size();
    require(number >= 0 && number < static_cast<int>(count), "a hypothesis out of range");
    int prefix = ended ? sentence.ended[number].prefix : sentence.live[number];
    *length = sentence.prefixes[prefix].depth;
    require(*length <= room, "more tokens than there is room for");
    if (ended) scores[*length] = sentence.ended[number].score;
    for (; prefix > 0; prefix = sentence.prefixes[prefix].parent) {
      const Prefix& one = sentence.prefixes[prefix];
      tokens[one.depth - 1] = one.token;
      scores[one.depth - 1] = one.score;
    }
  });
}

}  // extern "C"
}  // namespace specdec
