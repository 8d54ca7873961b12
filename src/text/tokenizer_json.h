// Reads Hugging Face's tokenizer.json (github.com/huggingface/tokenizers) into a TokenizerSpec.
//
// Such a file is a chain of components: normalizer, pre-tokenizer, model, decoder (the
// post-processor only adds bos and eos, which Encode never does). Each component that is there must
// be one that we know, or the file is refused with its name: a tokenizer that is nearly right is
// worse than none.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/tokenizer_spec.h"

namespace erne {

// BPE models with byte fallback over characters, as converted from SentencePiece. `text` is
// hostile.
Result<TokenizerSpec> ReadTokenizerJson(std::string_view text);

}  // namespace erne
