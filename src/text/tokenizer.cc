#include "text/tokenizer.h"

#include <utility>

#include "base/strings.h"
#include "base/utf8.h"
#include "text/bpe_tokenizer.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_json.h"

namespace erne {
namespace {

constexpr const char* kModelFile = "tokenizer.model";
constexpr const char* kJsonFile = "tokenizer.json";

Result<TokenizerSpec> ReadModelFile(const FileSet& files, const TokenizerConfig& config) {
  ERNE_ASSIGN_OR_RETURN(const std::string_view bytes, files.Text(kModelFile));
  Result<TokenizerSpec> spec = ReadSentencePieceModel(bytes);
  if (!spec.ok()) return spec;
  // Since transformers' "legacy": false, only the beginning of a text gets the space that the model
  // asks for.
  if (spec->prefix_space == PrefixSpace::kEachSegment && !config.legacy) {
    spec->prefix_space = config.add_prefix_space ? PrefixSpace::kTextBegin : PrefixSpace::kNever;
  }
  return spec;
}

Result<TokenizerSpec> ReadJsonFile(const FileSet& files) {
  ERNE_ASSIGN_OR_RETURN(const std::string_view text, files.Text(kJsonFile));
  return ReadTokenizerJson(text);
}

}  // namespace

std::vector<int32_t> Tokenizer::Encode(std::string_view text, bool parse_special) const {
  const TextPiece piece{std::string(text), parse_special};
  return Encode(std::span<const TextPiece>(&piece, 1));
}

std::string Tokenizer::Decode(const std::vector<int32_t>& tokens, bool skip_special) const {
  std::string bytes;
  for (const int32_t token : tokens) {
    if (!skip_special || !IsSpecial(token)) bytes += TokenBytes(token);
  }
  if (adds_prefix_space() && !bytes.empty() && bytes[0] == ' ') bytes.erase(0, 1);
  return SanitizeUtf8(bytes);
}

Result<std::unique_ptr<const Tokenizer>> LoadTokenizer(const FileSet& files) {
  ERNE_ASSIGN_OR_RETURN(const TokenizerConfig config, ReadTokenizerConfig(files));
  const bool has_model = files.Has(kModelFile);
  if (!has_model && !files.Has(kJsonFile)) {
    return NotFound(StrCat(files.path(), ": no tokenizer: neither ", kModelFile, " nor ", kJsonFile,
                           " is there"));
  }
  const std::string where = StrCat(files.path(), "/", has_model ? kModelFile : kJsonFile);
  Result<TokenizerSpec> spec = has_model ? ReadModelFile(files, config) : ReadJsonFile(files);
  if (!spec.ok()) return spec.status().WithContext(where);
  ERNE_RETURN_IF_ERROR(ApplyTokenizerConfig(config, *spec).WithContext(where));
  Result<std::unique_ptr<const Tokenizer>> tokenizer = BpeTokenizer::Make(std::move(*spec));
  if (!tokenizer.ok()) return tokenizer.status().WithContext(where);
  return tokenizer;
}

}  // namespace erne
