// The whole engine as one unit of translation: one compiler call for each variant, and every inline
// decision in the compiler's view.
#include "abi.cpp"
#include "beam.cpp"
#include "beam_abi.cpp"
#include "block_drafter.cpp"
#include "greedy_drafts.cpp"
#include "matrix_abi.cpp"
#include "pool.cpp"
#include "product.cpp"
#include "product_rows.cpp"
#include "source_copy.cpp"
#include "transformer.cpp"
#include "transformer_abi.cpp"
#include "verify.cpp"
#include "vocabulary_list.cpp"
#include "word_list.cpp"

#include "layout_abi.cpp"
