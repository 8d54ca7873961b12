#include "text/tokenizer_json.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_config.h"

namespace erne {
namespace {

// What the components of the file have asked for so far.
struct Reading {
  TokenizerSpec spec;
  bool marks_spaces = false;    // " " becomes U+2581 on the way in
  bool unmarks_spaces = false;  // and back on the way out
  bool decodes_bytes = false;   // the decoder is byte-level
};

// The component's `type`; an error when it has none.
Result<std::string> TypeOf(const Json& component) {
  if (!component.is_object()) {
    return InvalidArgument(StrCat("must be an object, not ", component.KindName()));
  }
  ERNE_ASSIGN_OR_RETURN(std::string type, StringMember(component, "type", ""));
  if (type.empty()) return InvalidArgument("has no `type`");
  return type;
}

Status Unsupported(std::string_view type, std::string_view detail = "") {
  return Unimplemented(StrCat("`", type, "`", detail, " is not supported"));
}

// The members of a Sequence, or the component itself as a sequence of one.
Result<std::vector<const Json*>> Flatten(const Json* component, std::string_view list_name) {
  std::vector<const Json*> parts;
  if (component == nullptr || component->is_null()) return parts;
  ERNE_ASSIGN_OR_RETURN(const std::string type, TypeOf(*component));
  if (type != "Sequence") return std::vector<const Json*>{component};
  const Json* list = component->Find(list_name);
  if (list == nullptr || !list->is_array())
    return InvalidArgument(StrCat("has no list `", list_name, "`"));
  for (const Json& part : list->AsArray()) parts.push_back(&part);
  return parts;
}

bool IsReplace(const Json& component, std::string_view from, std::string_view to) {
  const Json* pattern = component.Find("pattern");
  const Json* string = pattern != nullptr ? pattern->Find("String") : nullptr;
  const Json* content = component.Find("content");
  return string != nullptr && string->is_string() && string->AsString() == from &&
         content != nullptr && content->is_string() && content->AsString() == to;
}

Status ReadNormalizer(const Json* component, Reading& reading) {
  ERNE_ASSIGN_OR_RETURN(const std::vector<const Json*> parts, Flatten(component, "normalizers"));
  for (const Json* part : parts) {
    ERNE_ASSIGN_OR_RETURN(const std::string type, TypeOf(*part));
    if (type == "Prepend") {
      ERNE_ASSIGN_OR_RETURN(const std::string prefix, StringMember(*part, "prepend", ""));
      if (prefix != kSpaceMark) return Unsupported(type, StrCat(" of `", prefix, "`"));
      reading.spec.prefix_space = PrefixSpace::kEachSegment;
    } else if (type == "Replace") {
      if (!IsReplace(*part, " ", kSpaceMark))
        return Unsupported(type, StrCat(" of ", part->Dump()));
      reading.marks_spaces = true;
    } else if (type == "NFC") {
      reading.spec.compose = true;
    } else {
      return Unsupported(type);
    }
  }
  return {};
}

Status ReadMetaspace(const Json& component, Reading& reading) {
  TokenizerSpec& spec = reading.spec;
  ERNE_ASSIGN_OR_RETURN(const std::string mark, StringMember(component, "replacement", kSpaceMark));
  if (mark != kSpaceMark) return Unsupported("Metaspace", StrCat(" with `", mark, "`"));
  ERNE_ASSIGN_OR_RETURN(const bool add_prefix, BoolMember(component, "add_prefix_space", true));
  ERNE_ASSIGN_OR_RETURN(const std::string scheme,
                        StringMember(component, "prepend_scheme", add_prefix ? "always" : "never"));
  if (scheme == "always") {
    spec.prefix_space = PrefixSpace::kEachSegment;
  } else if (scheme == "first") {
    spec.prefix_space = PrefixSpace::kTextBegin;
  } else if (scheme != "never") {
    return Unsupported("Metaspace", StrCat(" with prepend_scheme `", scheme, "`"));
  }
  spec.prefix_unless_space = true;
  ERNE_ASSIGN_OR_RETURN(spec.split_words, BoolMember(component, "split", true));
  reading.marks_spaces = true;
  return {};
}

// Split, which comes before ByteLevel and names the pattern of words.
Status ReadSplit(const Json& component, TokenizerSpec& spec) {
  const Json* pattern = component.Find("pattern");
  const Json* regex = pattern != nullptr ? pattern->Find("Regex") : nullptr;
  if (regex == nullptr || !regex->is_string()) return Unsupported("Split", " without a Regex");
  ERNE_ASSIGN_OR_RETURN(const std::string behavior, StringMember(component, "behavior", ""));
  ERNE_ASSIGN_OR_RETURN(const bool invert, BoolMember(component, "invert", false));
  const std::optional<PreTokenizer> kind = PreTokenizerOf(regex->AsString());
  if (!kind || behavior != "Isolated" || invert)
    return Unsupported("Split", StrCat(" ", component.Dump()));
  spec.pre_tokenizer = *kind;
  return {};
}

Status ReadByteLevel(const Json& component, bool after_split, TokenizerSpec& spec) {
  spec.byte_level = true;
  ERNE_ASSIGN_OR_RETURN(const bool use_regex, BoolMember(component, "use_regex", true));
  ERNE_ASSIGN_OR_RETURN(const bool add_prefix, BoolMember(component, "add_prefix_space", true));
  if (after_split && (use_regex || add_prefix)) {
    return Unsupported("ByteLevel", " with use_regex or add_prefix_space after a Split");
  }
  if (use_regex) spec.pre_tokenizer = PreTokenizer::kGpt2;
  if (add_prefix) {
    spec.prefix_space = PrefixSpace::kEachSegment;
    spec.prefix_unless_space = true;
  }
  return {};
}

Status ReadPreTokenizer(const Json* component, Reading& reading) {
  ERNE_ASSIGN_OR_RETURN(const std::vector<const Json*> parts, Flatten(component, "pretokenizers"));
  for (size_t i = 0; i < parts.size(); ++i) {
    ERNE_ASSIGN_OR_RETURN(const std::string type, TypeOf(*parts[i]));
    const bool last = i + 1 == parts.size();
    if (reading.spec.prefix_space != PrefixSpace::kNever) {
      return Unsupported(type, " after a Prepend normalizer");
    }
    if (type == "Metaspace" && i == 0 && last) {
      ERNE_RETURN_IF_ERROR(ReadMetaspace(*parts[i], reading));
    } else if (type == "ByteLevel" && i <= 1 && last) {
      ERNE_RETURN_IF_ERROR(ReadByteLevel(*parts[i], i == 1, reading.spec));
    } else if (type == "Split" && i == 0 && !last) {
      ERNE_RETURN_IF_ERROR(ReadSplit(*parts[i], reading.spec));
    } else {
      return Unsupported(type, parts.size() > 1 ? " in this Sequence" : "");
    }
  }
  return {};
}

Status ReadDecoder(const Json* component, Reading& reading) {
  ERNE_ASSIGN_OR_RETURN(const std::vector<const Json*> parts, Flatten(component, "decoders"));
  for (const Json* part : parts) {
    ERNE_ASSIGN_OR_RETURN(const std::string type, TypeOf(*part));
    if (type == "Replace" && IsReplace(*part, kSpaceMark, " ")) {
      reading.unmarks_spaces = true;
    } else if (type == "Metaspace") {
      reading.unmarks_spaces = true;
    } else if (type == "ByteLevel") {
      reading.decodes_bytes = true;
    } else if (type == "Strip") {
      // Takes away the space that was put before the text: see Tokenizer::Decode.
      ERNE_ASSIGN_OR_RETURN(const std::string content, StringMember(*part, "content", " "));
      ERNE_ASSIGN_OR_RETURN(const int64_t start, IntMember(*part, "start", 0));
      ERNE_ASSIGN_OR_RETURN(const int64_t stop, IntMember(*part, "stop", 0));
      if (content != " " || start > 1 || stop != 0)
        return Unsupported(type, StrCat(" ", part->Dump()));
    } else if (type != "ByteFallback" && type != "Fuse") {
      return Unsupported(type);
    }
  }
  return {};
}

// An option of the model that changes results and is nearly never set.
Status RefuseMember(const Json& model, std::string_view name) {
  const Json* value = model.Find(name);
  const bool unset = value == nullptr || value->is_null() ||
                     (value->is_string() && value->AsString().empty()) ||
                     (value->is_number() && value->AsDouble() == 0);
  return unset ? Status() : Unimplemented(StrCat("`", name, "` is not supported"));
}

Status ReadVocabulary(const Json& model, TokenizerSpec& spec) {
  const Json* vocabulary = model.Find("vocab");
  if (vocabulary == nullptr || !vocabulary->is_object())
    return InvalidArgument("has no object `vocab`");
  for (const auto& [piece, value] : vocabulary->AsObject()) {
    if (piece.empty()) return InvalidArgument("`vocab` holds an empty piece");
    if (!value.is_int() || value.AsInt() < 0 || value.AsInt() > kMaxTokenId) {
      return InvalidArgument(StrCat("`vocab`: `", piece, "` has no id in 0 ... ", kMaxTokenId));
    }
    const auto id = static_cast<size_t>(value.AsInt());
    if (id >= spec.tokens.size()) spec.tokens.resize(id + 1);
    SpecToken& token = spec.tokens[id];
    if (token.kind != TokenKind::kNone) {
      return InvalidArgument(
          StrCat("`vocab`: `", token.piece, "` and `", piece, "` both have id ", id));
    }
    token = {piece, TokenKind::kNormal};
    if (spec.byte_fallback && ByteOfPiece(piece)) token.kind = TokenKind::kByte;
  }
  return {};
}

// A merge is "left right", or ["left", "right"] since version 0.20 of the library.
Result<std::pair<std::string_view, std::string_view>> SplitMerge(const Json& merge) {
  if (merge.is_array() && merge.AsArray().size() == 2 && merge.AsArray()[0].is_string() &&
      merge.AsArray()[1].is_string()) {
    return std::pair<std::string_view, std::string_view>(merge.AsArray()[0].AsString(),
                                                         merge.AsArray()[1].AsString());
  }
  if (!merge.is_string()) return InvalidArgument("is no pair of pieces");
  const std::string_view text = merge.AsString();
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
    return InvalidArgument(StrCat("`", text, "` is no pair of pieces"));
  }
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

std::string_view FirstCharacter(std::string_view text) {
  return text.substr(0, DecodeUtf8(text).length);
}
std::string_view LastCharacter(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return text.substr(begin);
}

class MergeReader {
 public:
  explicit MergeReader(TokenizerSpec& spec) : spec_(spec) {
    ids_.reserve(spec.tokens.size());
    for (size_t id = 0; id < spec.tokens.size(); ++id) {
      if (spec.tokens[id].kind == TokenKind::kNone) continue;
      ids_.emplace(spec.tokens[id].piece, static_cast<int32_t>(id));
    }
  }

  Status Read(const Json& merge, uint32_t rank) {
    ERNE_ASSIGN_OR_RETURN(const auto pair, SplitMerge(merge));
    const auto [left, right] = pair;
    if (left.empty() || right.empty()) return InvalidArgument("holds an empty piece");
    if (left.size() + right.size() > kMaxPieceBytes) return Unimplemented("makes too long a piece");
    ERNE_ASSIGN_OR_RETURN(const int32_t left_id, Id(left));
    ERNE_ASSIGN_OR_RETURN(const int32_t right_id, Id(right));
    ERNE_ASSIGN_OR_RETURN(const int32_t result, Id(std::string(left).append(right)));
    const auto left_end = ids_.find(LastCharacter(left));
    const auto right_begin = ids_.find(FirstCharacter(right));
    // Merging begins with characters that are pieces: what holds any other character never comes to
    // be.
    if (left_end == ids_.end() || right_begin == ids_.end()) return {};
    spec_.merges.push_back(
        {left_id, right_id, result, rank, left_end->second, right_begin->second});
    return {};
  }

 private:
  Result<int32_t> Id(std::string_view piece) const {
    const auto found = ids_.find(piece);
    if (found == ids_.end()) return InvalidArgument(StrCat("`", piece, "` is not in `vocab`"));
    return found->second;
  }

  TokenizerSpec& spec_;
  std::unordered_map<std::string_view, int32_t> ids_;
};

Status ReadModel(const Json* model, TokenizerSpec& spec) {
  if (model == nullptr) return InvalidArgument("is missing");
  ERNE_ASSIGN_OR_RETURN(const std::string type, TypeOf(*model));
  if (type != "BPE") return Unsupported(type);
  for (const std::string_view name :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    ERNE_RETURN_IF_ERROR(RefuseMember(*model, name));
  }
  ERNE_ASSIGN_OR_RETURN(spec.fuse_unknown, BoolMember(*model, "fuse_unk", false));
  ERNE_ASSIGN_OR_RETURN(spec.byte_fallback, BoolMember(*model, "byte_fallback", false));
  ERNE_ASSIGN_OR_RETURN(spec.ignore_merges, BoolMember(*model, "ignore_merges", false));
  ERNE_ASSIGN_OR_RETURN(const std::string unknown, StringMember(*model, "unk_token", ""));
  ERNE_RETURN_IF_ERROR(ReadVocabulary(*model, spec));

  const Json* merges = model->Find("merges");
  if (merges == nullptr || !merges->is_array()) return InvalidArgument("has no list `merges`");
  MergeReader reader(spec);
  for (size_t rank = 0; rank < merges->AsArray().size(); ++rank) {
    const Status read = reader.Read(merges->AsArray()[rank], static_cast<uint32_t>(rank));
    if (!read.ok()) return read.WithContext(StrCat("merge ", rank));
  }
  for (size_t id = 0; id < spec.tokens.size() && !unknown.empty(); ++id) {
    if (spec.tokens[id].piece != unknown) continue;
    spec.tokens[id].kind = TokenKind::kSpecial;
    spec.unknown_id = static_cast<int32_t>(id);
  }
  return {};
}

Status ReadAddedTokens(const Json* list, TokenizerSpec& spec) {
  if (list == nullptr || list->is_null()) return {};
  if (!list->is_array()) return InvalidArgument(StrCat("must be a list, not ", list->KindName()));
  for (const Json& value : list->AsArray()) {
    ERNE_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(value, -1));
    spec.added.push_back(std::move(token));
  }
  return {};
}

}  // namespace

Result<TokenizerSpec> ReadTokenizerJson(std::string_view text) {
  ERNE_ASSIGN_OR_RETURN(const Json file, Json::Parse(text));
  if (!file.is_object()) return InvalidArgument(StrCat("must be an object, not ", file.KindName()));
  Reading reading;
  TokenizerSpec& spec = reading.spec;
  ERNE_RETURN_IF_ERROR(ReadNormalizer(file.Find("normalizer"), reading).WithContext("normalizer"));
  ERNE_RETURN_IF_ERROR(
      ReadPreTokenizer(file.Find("pre_tokenizer"), reading).WithContext("pre_tokenizer"));
  ERNE_RETURN_IF_ERROR(ReadDecoder(file.Find("decoder"), reading).WithContext("decoder"));
  ERNE_RETURN_IF_ERROR(ReadModel(file.Find("model"), spec).WithContext("model"));
  ERNE_RETURN_IF_ERROR(
      ReadAddedTokens(file.Find("added_tokens"), spec).WithContext("added_tokens"));
  if (spec.byte_level != reading.decodes_bytes) {
    return Unimplemented("only one of pre_tokenizer and decoder is ByteLevel");
  }
  if (reading.marks_spaces != reading.unmarks_spaces || reading.marks_spaces == spec.byte_level) {
    return Unimplemented(
        "a tokenizer that neither writes spaces as U+2581 nor is byte-level is not supported");
  }
  if (spec.ignore_merges && !spec.byte_level) {
    return Unimplemented("model: `ignore_merges` is only supported in byte-level tokenizers");
  }
  return std::move(reading.spec);
}

}  // namespace erne
