// Steps of greedy search that only propose tokens, which a product of the whole vocabulary or another
// session decides.
#pragma once

#include <cstdint>

#include "block_drafter.h"

namespace specdec {

// The likeliest token of each row, by the session's preview or of its list if it has one (`all`: of
// all), at output steps [B] with features [B][width]; -1 where there is none. `sure` [B], if it is not
// null: whether it has half of the probability.
void choose(Session& session, const Rules& rules, const int64_t* steps, const float* features,
            int64_t* tokens, bool* sure, bool all = false);

// Drafts tokens [B][block] and sizes [B] after the hypotheses with a session of its own: of the verifier
// itself in fewer bits. For a lone row what is copied is decided in the same pass as the token before
// it. Accepted tokens join the session's list.
void draft_greedily(Session& session, const Drafting& how, const Rules& rules,
                    const Hypotheses& hypotheses, int64_t* tokens, int64_t* sizes);

}  // namespace specdec
