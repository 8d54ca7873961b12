// Incremental detokenizing: token ids in, well-formed UTF-8 out, as early as possible and never
// broken.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace erne {

// One per choice; not thread-safe. Bytes of an unfinished character are held back until later
// tokens complete it; bytes that can never become a character are emitted as U+FFFD, one per
// maximal ill-formed piece. When the tokens end inside a character (max_tokens cut it), its bytes
// are never shown: half a character is nothing that a reader could use.
//
// The text is that of a continuation: a space at its beginning belongs to it (prompt + answer is
// the whole text), also with tokenizers that put a space before the beginning of a text.
// Tokenizer::Decode is for whole texts.
class Detokenizer {
 public:
  // `tokenizer` must outlive this.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // The text that `token` adds; may be empty.
  std::string Add(int32_t token);

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::string held_;  // bytes not yet emitted: the beginning of a character, so three at most
};

}  // namespace erne
