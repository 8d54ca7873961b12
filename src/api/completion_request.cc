#include "api/completion_request.h"

#include <optional>
#include <utility>

#include "api/schema.h"
#include "base/strings.h"

namespace erne {
namespace {

constexpr const char* kForms =
    "must be a string, an array of strings, an array of token ids, or an array of such arrays";

Result<std::vector<int32_t>> ReadIds(const Json::Array& ids, const std::string& field) {
  if (ids.empty()) return FieldFault(field, "must not be empty");
  std::vector<int32_t> tokens;
  tokens.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::optional<int32_t> token = TokenId(ids[i]);
    if (!token) {
      return FieldFault(StrCat(field, "[", i, "]"),
                        StrCat("must be a token id like those before it, not ", Shown(ids[i])));
    }
    tokens.push_back(*token);
  }
  return tokens;
}

Status ReadPrompts(const Json& body, CompletionRequest& request) {
  const Json* prompt = Given(body, "prompt");
  if (prompt == nullptr) return FieldFault("prompt", "is missing");
  if (prompt->is_string()) {
    request.prompts.push_back(prompt->AsString());
    return {};
  }
  if (!prompt->is_array()) {
    return FieldFault("prompt", StrCat(kForms, ", not ", prompt->KindName()));
  }
  const Json::Array& entries = prompt->AsArray();
  if (entries.empty()) return FieldFault("prompt", "must not be empty");
  if (entries[0].is_number()) {
    ERNE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, ReadIds(entries, "prompt"));
    request.prompts.push_back(std::move(ids));
    return {};
  }
  request.is_list = true;
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string field = request.PromptField(i);
    if (entries[i].is_string()) {
      request.prompts.push_back(entries[i].AsString());
    } else if (entries[i].is_array()) {
      ERNE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, ReadIds(entries[i].AsArray(), field));
      request.prompts.push_back(std::move(ids));
    } else {
      return FieldFault(
          field, StrCat("must be a string or an array of token ids, not ", entries[i].KindName()));
    }
  }
  return {};
}

}  // namespace

std::string CompletionRequest::PromptField(size_t index) const {
  return is_list ? StrCat("prompt[", index, "]") : "prompt";
}

Result<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                 std::vector<std::string>& unknown) {
  ERNE_ASSIGN_OR_RETURN(const Json json, ParseBody(body, Endpoint::kCompletions, unknown));
  CompletionRequest request;
  ERNE_RETURN_IF_ERROR(ReadPrompts(json, request));
  ERNE_ASSIGN_OR_RETURN(request.options, ReadRequestOptions(json, Endpoint::kCompletions));
  RequestOptions& options = request.options;
  const auto prompts = static_cast<int64_t>(request.prompts.size());
  if (prompts > CompletionRequest::kMaxAnswers / options.best_of) {
    return FieldFault("prompt",
                      StrCat("asks for ", prompts, " times ", options.best_of,
                             " answers; one request may have ", CompletionRequest::kMaxAnswers));
  }
  request.echo = FlagMember(json, "echo", false);
  request.add_special_tokens = FlagMember(json, "add_special_tokens", true);
  if (options.max_tokens == 0 && !request.echo) {
    return FieldFault("max_tokens", "must be at least 1 (0 is for `echo`: true), not 0");
  }
  return request;
}

}  // namespace erne
