#include "text/tokenizer_config.h"

#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/strings.h"

namespace erne {
namespace {

constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kSpecialFile = "special_tokens_map.json";
constexpr const char* kAddedFile = "added_tokens.json";

// The members of tokenizer_config.json and special_tokens_map.json whose values are special tokens.
constexpr std::string_view kSpecialMembers[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                "pad_token", "cls_token", "mask_token"};
constexpr std::string_view kSpecialLists[] = {"additional_special_tokens", "extra_special_tokens"};

// A special token is a string, or an object with the string as `content`.
const std::string* TokenContent(const Json& value) {
  const Json* content = value.is_object() ? value.Find("content") : &value;
  return content != nullptr && content->is_string() ? &content->AsString() : nullptr;
}

Status AppendSpecialNames(const Json& object, std::vector<std::string>& names) {
  const auto append = [&](std::string_view member, const Json& value) -> Status {
    if (value.is_null()) return {};
    const std::string* content = TokenContent(value);
    if (content == nullptr) {
      return InvalidArgument(StrCat("`", member, "` must be a token, not ", value.KindName()));
    }
    if (!content->empty()) names.push_back(*content);
    return {};
  };
  for (const std::string_view member : kSpecialMembers) {
    if (const Json* value = object.Find(member)) ERNE_RETURN_IF_ERROR(append(member, *value));
  }
  for (const std::string_view member : kSpecialLists) {
    const Json* list = object.Find(member);
    if (list == nullptr || list->is_null()) continue;
    if (list->is_array()) {
      for (const Json& value : list->AsArray()) ERNE_RETURN_IF_ERROR(append(member, value));
    } else if (list->is_object()) {  // newer files name them: {"image_token": "<image>"}
      for (const auto& [name, value] : list->AsObject()) ERNE_RETURN_IF_ERROR(append(name, value));
    } else {
      return InvalidArgument(StrCat("`", member, "` must be a list, not ", list->KindName()));
    }
  }
  return {};
}

Result<int32_t> CheckedId(int64_t id, std::string_view content) {
  if (id < 0 || id > kMaxTokenId) {
    return InvalidArgument(
        StrCat("token `", content, "` has id ", id, ", outside 0 ... ", kMaxTokenId));
  }
  return static_cast<int32_t>(id);
}

// added_tokens.json: {"content": id}.
Status ReadAddedTokens(const Json& object, std::map<int32_t, AddedToken>& added) {
  if (!object.is_object()) return InvalidArgument("it must be an object");
  for (const auto& [content, id] : object.AsObject()) {
    if (content.empty()) return InvalidArgument("a token is empty");
    if (!id.is_int()) return InvalidArgument(StrCat("`", content, "` must be an integer"));
    AddedToken token;
    ERNE_ASSIGN_OR_RETURN(token.id, CheckedId(id.AsInt(), content));
    token.content = content;
    added[token.id] = std::move(token);
  }
  return {};
}

// tokenizer_config.json's added_tokens_decoder: {"id": {content, special, ...}}.
Status ReadAddedTokensDecoder(const Json& object, std::map<int32_t, AddedToken>& added) {
  if (!object.is_object()) return InvalidArgument("it must be an object");
  for (const auto& [key, value] : object.AsObject()) {
    const auto id = ParseNumber<int64_t>(key);
    if (!id) return InvalidArgument(StrCat("`", key, "` is not a token id"));
    ERNE_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(value, *id));
    added[token.id] = std::move(token);
  }
  return {};
}

// The parsed file, or null when there is none.
Result<Json> ReadObject(const FileSet& files, const char* name) {
  if (!files.Has(name)) return Json();
  ERNE_ASSIGN_OR_RETURN(const std::string_view text, files.Text(name));
  Result<Json> json = Json::Parse(text);
  if (!json.ok()) return json.status().WithContext(StrCat(files.path(), "/", name));
  if (!json->is_object()) {
    return InvalidArgument(
        StrCat(files.path(), "/", name, ": must be an object, not ", json->KindName()));
  }
  return json;
}

Status ReadConfigMembers(const Json& object, std::map<int32_t, AddedToken>& added,
                         TokenizerConfig& config) {
  if (object.is_null()) return {};
  ERNE_RETURN_IF_ERROR(AppendSpecialNames(object, config.special_names));
  ERNE_ASSIGN_OR_RETURN(config.legacy, BoolMember(object, "legacy", config.legacy));
  ERNE_ASSIGN_OR_RETURN(config.add_prefix_space,
                        BoolMember(object, "add_prefix_space", config.add_prefix_space));
  const Json* decoder = object.Find("added_tokens_decoder");
  if (decoder == nullptr || decoder->is_null()) return {};
  return ReadAddedTokensDecoder(*decoder, added).WithContext("added_tokens_decoder");
}

}  // namespace

Result<AddedToken> ReadAddedToken(const Json& value, int64_t fallback_id) {
  if (!value.is_object()) {
    return InvalidArgument(StrCat("an added token must be an object, not ", value.KindName()));
  }
  AddedToken token;
  ERNE_ASSIGN_OR_RETURN(token.content, StringMember(value, "content", ""));
  if (token.content.empty()) return InvalidArgument("an added token has no `content`");
  ERNE_ASSIGN_OR_RETURN(const int64_t id, IntMember(value, "id", fallback_id));
  ERNE_ASSIGN_OR_RETURN(token.id, CheckedId(id, token.content));
  ERNE_ASSIGN_OR_RETURN(token.special, BoolMember(value, "special", false));
  ERNE_ASSIGN_OR_RETURN(token.left_strip, BoolMember(value, "lstrip", false));
  ERNE_ASSIGN_OR_RETURN(token.right_strip, BoolMember(value, "rstrip", false));
  ERNE_ASSIGN_OR_RETURN(const bool single_word, BoolMember(value, "single_word", false));
  if (single_word) {
    return Unimplemented(StrCat("added token `", token.content, "`: single_word is not supported"));
  }
  return token;
}

Result<TokenizerConfig> ReadTokenizerConfig(const FileSet& files) {
  TokenizerConfig config;
  std::map<int32_t, AddedToken> added;
  ERNE_ASSIGN_OR_RETURN(const Json added_tokens, ReadObject(files, kAddedFile));
  if (!added_tokens.is_null()) {
    ERNE_RETURN_IF_ERROR(
        ReadAddedTokens(added_tokens, added).WithContext(StrCat(files.path(), "/", kAddedFile)));
  }
  ERNE_ASSIGN_OR_RETURN(const Json special_map, ReadObject(files, kSpecialFile));
  ERNE_RETURN_IF_ERROR(AppendSpecialNames(special_map, config.special_names)
                           .WithContext(StrCat(files.path(), "/", kSpecialFile)));
  ERNE_ASSIGN_OR_RETURN(const Json object, ReadObject(files, kConfigFile));
  ERNE_RETURN_IF_ERROR(
      ReadConfigMembers(object, added, config).WithContext(StrCat(files.path(), "/", kConfigFile)));
  for (auto& [id, token] : added) config.added.push_back(std::move(token));
  return config;
}

Status ApplyTokenizerConfig(const TokenizerConfig& config, TokenizerSpec& spec) {
  std::map<int32_t, AddedToken> added;
  for (AddedToken& token : spec.added) added[token.id] = std::move(token);
  for (const AddedToken& token : config.added) added[token.id] = token;

  // Pieces that are named special, or are so by the tokenizer file, are split off as well.
  std::unordered_map<std::string_view, int32_t> by_piece;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const SpecToken& token = spec.tokens[id];
    if (token.kind != TokenKind::kNone) by_piece.emplace(token.piece, static_cast<int32_t>(id));
    if (token.kind == TokenKind::kSpecial && added.count(static_cast<int32_t>(id)) == 0) {
      added[static_cast<int32_t>(id)] = {static_cast<int32_t>(id), token.piece, true, false, false};
    }
  }
  std::set<std::string_view> added_contents;
  const std::set<std::string_view> special(config.special_names.begin(),
                                           config.special_names.end());
  for (auto& [id, token] : added) {
    added_contents.insert(token.content);
    token.special = token.special || special.count(token.content) > 0;
  }
  for (const std::string_view name : special) {
    // A name that no file gives an id is no token of this model.
    const auto found = by_piece.find(name);
    if (added_contents.count(name) > 0 || found == by_piece.end()) continue;
    added[found->second] = {found->second, std::string(name), true, false, false};
  }

  spec.added.clear();
  for (auto& [id, token] : added) {
    if (static_cast<size_t>(id) >= spec.tokens.size()) spec.tokens.resize(id + 1);
    // The token of a user-defined piece stays one; its id and text are the same.
    spec.tokens[id] = {token.content,
                       token.special ? TokenKind::kSpecial : TokenKind::kUserDefined};
    spec.added.push_back(std::move(token));
  }
  return {};
}

}  // namespace erne
