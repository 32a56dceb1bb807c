// The sizes of the structures that Python fills or reads: structures.py has them too, and an object
// whose sizes are others is not used. Included last, where all of them are known.
#include <utility>

#include "abi.h"

#define SPECDEC_SIZE(name) \
  { #name, sizeof(specdec::name) }

namespace {

constexpr std::pair<const char*, size_t> kSizes[] = {
    SPECDEC_SIZE(Shape),     SPECDEC_SIZE(RunCall),     SPECDEC_SIZE(Embedding),
    SPECDEC_SIZE(Rules),     SPECDEC_SIZE(Drafts),      SPECDEC_SIZE(Hypotheses),
    SPECDEC_SIZE(StepOutputs), SPECDEC_SIZE(Drafting),  SPECDEC_SIZE(VerifyCall),
    SPECDEC_SIZE(BeamSetup), SPECDEC_SIZE(BeamFacts),
    SPECDEC_SIZE(MatrixParts), SPECDEC_SIZE(SourceCopy),
};

}  // namespace

extern "C" {

// The size of structure `number`, whose name is stored, or 0 after the last one.
SPECDEC_API size_t specdec_structure(int number, const char** name) {
  if (number < 0 || number >= static_cast<int>(sizeof kSizes / sizeof *kSizes)) return 0;
  *name = kSizes[number].first;
  return kSizes[number].second;
}
}
