#include "api/answer_form.h"

#include <utility>
#include <vector>

#include "api/request_options.h"
#include "api/schema.h"
#include "base/strings.h"

namespace erne {
namespace {

using Kind = grammar::Form::Kind;

// A schema as an object or a boolean, or the same as a string.
Result<AnswerForm> SchemaForm(const Json& schema, std::string field) {
  if (!schema.is_string()) return AnswerForm{{Kind::kJsonSchema, schema.Dump()}, std::move(field)};
  const Result<Json> parsed = Json::Parse(schema.AsString());
  if (!parsed.ok()) return FieldFault(field, StrCat("is no JSON: ", parsed.status().message()));
  return AnswerForm{{Kind::kJsonSchema, parsed->Dump()}, std::move(field)};
}

Status ReadResponseFormat(const Json& body, std::vector<AnswerForm>& forms) {
  const Json* format = Given(body, "response_format");
  if (format == nullptr) return {};
  const std::string type = TextMember(*format, "type");
  if (type == "text") return {};
  if (type == "json_object") {
    forms.push_back({{Kind::kJsonObject}, "response_format"});
    return {};
  }
  if (type != "json_schema") {
    return FieldFault(
        "response_format.type",
        StrCat("must be \"text\", \"json_object\" or \"json_schema\", not ", Shown(Json(type))));
  }
  const Json* wrapped = Given(*format, "json_schema");
  const Json* schema = wrapped == nullptr ? nullptr : Given(*wrapped, "schema");
  if (schema == nullptr) return FieldFault("response_format.json_schema.schema", "is missing");
  ERNE_ASSIGN_OR_RETURN(AnswerForm form, SchemaForm(*schema, "response_format.json_schema.schema"));
  forms.push_back(std::move(form));
  return {};
}

// The members of structured_outputs, or the same with guided_ before them.
Status ReadMembers(const Json& object, const std::string& prefix, const std::string& shown,
                   std::vector<AnswerForm>& forms) {
  if (const Json* schema = Given(object, prefix + "json")) {
    ERNE_ASSIGN_OR_RETURN(AnswerForm form, SchemaForm(*schema, shown + "json"));
    forms.push_back(std::move(form));
  }
  if (const Json* regex = Given(object, prefix + "regex")) {
    forms.push_back({{Kind::kRegex, regex->AsString()}, shown + "regex"});
  }
  if (const Json* choices = Given(object, prefix + "choice")) {
    forms.push_back({{Kind::kChoice, choices->Dump()}, shown + "choice"});
  }
  if (const Json* text = Given(object, prefix + "grammar")) {
    forms.push_back({{Kind::kEbnf, text->AsString()}, shown + "grammar"});
  }
  if (FlagMember(object, prefix + "json_object", false)) {
    forms.push_back({{Kind::kJsonObject}, shown + "json_object"});
  }
  return {};
}

}  // namespace

Result<std::optional<AnswerForm>> ReadAnswerForm(const Json& body) {
  std::vector<AnswerForm> forms;
  ERNE_RETURN_IF_ERROR(ReadResponseFormat(body, forms));
  if (const Json* outputs = Given(body, "structured_outputs")) {
    const size_t before = forms.size();
    ERNE_RETURN_IF_ERROR(ReadMembers(*outputs, "", "structured_outputs.", forms));
    if (forms.size() == before) {
      return FieldFault("structured_outputs",
                        "must have one of json, regex, choice, grammar and json_object");
    }
  }
  ERNE_RETURN_IF_ERROR(ReadMembers(body, "guided_", "guided_", forms));
  if (forms.empty()) return std::optional<AnswerForm>();
  if (forms.size() > 1) {
    return FieldFault(forms[1].field,
                      StrCat("and `", forms[0].field, "` both give the answer a form: one may"));
  }
  return std::optional<AnswerForm>(std::move(forms[0]));
}

}  // namespace erne
