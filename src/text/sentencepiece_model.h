// Reads SentencePiece's tokenizer.model (the protobuf message ModelProto of google/sentencepiece,
// src/sentencepiece_model.proto) into a TokenizerSpec.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/tokenizer_spec.h"

namespace erne {

// BPE models whose normalizer leaves the text alone (identity) are read; others (unigram, NFKC,
// ...) are refused by name. `bytes` is hostile. The spec's prefix_space says what the file says:
// kEachSegment or kNever.
Result<TokenizerSpec> ReadSentencePieceModel(std::string_view bytes);

}  // namespace erne
