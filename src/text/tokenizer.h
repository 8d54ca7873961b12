// Text <-> token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_set.h"
#include "base/status.h"
#include "base/text_piece.h"

namespace erne {

// Immutable after construction; thread-safe.
class Tokenizer {
 public:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  // The token ids of a prompt. Texts must be well-formed UTF-8 (the API has checked). Special
  // tokens spelled inside a trusted piece, or a run of them, become their ids; everything else is
  // ordinary text, which is tokenized across piece boundaries as if it had been written in one go,
  // and never becomes a special token (but <unk> in vocabularies without byte pieces). Adds neither
  // bos nor eos.
  virtual std::vector<int32_t> Encode(std::span<const TextPiece> pieces) const = 0;
  std::vector<int32_t> Encode(std::string_view text, bool parse_special) const;

  // The bytes that `token` stands for in running text: one piece of a byte sequence that is UTF-8
  // as a whole, but need not be in each piece. Ids without a piece give "".
  virtual std::string TokenBytes(int32_t token) const = 0;
  virtual bool IsSpecial(
      int32_t token) const = 0;  // control tokens, dropped from answers (skip_special_tokens)

  // The id whose piece is exactly `piece` (specials included).
  virtual std::optional<int32_t> PieceId(std::string_view piece) const = 0;
  virtual int64_t vocab_size() const = 0;  // ids are below this

  // Whether Encode puts a space before the beginning of a text ("Hello" and " Hello" then have
  // different ids, and TokenBytes of the first one is " Hello").
  virtual bool adds_prefix_space() const = 0;

  // All of `tokens` as a text of its own; special ones dropped on request. Ill-formed bytes become
  // U+FFFD. The space that Encode puts before a text is taken away again; Detokenizer is for tokens
  // that continue a prompt, and keeps it.
  std::string Decode(const std::vector<int32_t>& tokens, bool skip_special) const;
};

// Picks by what the folder holds: tokenizer.model (SentencePiece BPE), else tokenizer.json
// (byte-fallback or byte-level BPE). Special are control pieces, <unk>, added tokens marked so, and
// those that tokenizer_config.json or special_tokens_map.json name (bos_token, cls_token, ...).
// Added tokens that are not special are found in any text. Errors name file and field, or list the
// files that were looked for.
Result<std::unique_ptr<const Tokenizer>> LoadTokenizer(const FileSet& files);

}  // namespace erne
