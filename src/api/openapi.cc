#include "api/openapi.h"

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "api/schema.h"
#include "base/check.h"
#include "base/strings.h"

namespace erne {
namespace {

struct BodyEndpoint {
  Endpoint endpoint;
  const char* path;
  const char* summary;
  const char* request;              // name of the body's schema
  const char* answer;               // name of the answer's schema
  std::vector<const char*> needed;  // fields that may not be absent
};

const std::vector<BodyEndpoint>& BodyEndpoints() {
  static const std::vector<BodyEndpoint> endpoints = {
      {Endpoint::kChat,
       "/v1/chat/completions",
       "Answers a conversation",
       "ChatCompletionRequest",
       "ChatCompletion",
       {"messages"}},
      {Endpoint::kCompletions,
       "/v1/completions",
       "Goes on from a text or from token ids",
       "CompletionRequest",
       "Completion",
       {"prompt"}},
      {Endpoint::kTokenize,
       "/tokenize",
       "Text or messages to token ids",
       "TokenizeRequest",
       "Tokens",
       {}},
      {Endpoint::kDetokenize,
       "/detokenize",
       "Token ids to text",
       "DetokenizeRequest",
       "Text",
       {"tokens"}},
  };
  return endpoints;
}

struct PlainEndpoint {
  const char* path;
  const char* summary;
  const char* content_type;
};
constexpr PlainEndpoint kPlainEndpoints[] = {
    {"/v1/models", "What is served", "application/json"},
    {"/v1/models/{model}", "One model", "application/json"},
    {"/v1/streams/{id}", "Goes on with a stream whose connection was lost", "text/event-stream"},
    {"/health", "State and load", "application/json"},
    {"/health/live", "503: restart the server", "application/json"},
    {"/health/ready", "200: send requests here", "application/json"},
    {"/ping", "The same as /health", "application/json"},
    {"/metrics", "For Prometheus", "text/plain"},
    {"/version", "The version", "application/json"},
    {"/openapi.json", "This document", "application/json"},
};

Json Strings(const std::vector<const char*>& texts) {
  Json list = Json::MakeArray();
  for (const char* text : texts) list.Push(text);
  return list;
}

// The JSON types of a kind; none for any value.
std::vector<const char*> TypesOf(FieldKind kind) {
  switch (kind) {
    case FieldKind::kBoolean:
      return {"boolean"};
    case FieldKind::kInteger:
      return {"integer"};
    case FieldKind::kNumber:
      return {"number"};
    case FieldKind::kString:
      return {"string"};
    case FieldKind::kArray:
      return {"array"};
    case FieldKind::kObject:
      return {"object"};
    case FieldKind::kStringOrArray:
      return {"string", "array"};
    case FieldKind::kStringOrObject:
      return {"string", "object"};
    case FieldKind::kAny:
      return {};
  }
  return {};
}

// A whole number as such: 1 and not 1.0.
Json Limit(double value) {
  return std::trunc(value) == value ? Json(static_cast<int64_t>(value)) : Json(value);
}

Json NeutralOf(const RequestField& field) {
  const Result<Json> neutral = Json::Parse(field.neutral);
  ERNE_CHECK(neutral.ok()) << field.name << ": " << field.neutral;
  return *neutral;
}

std::string Description(const RequestField& field) {
  const char* head = "";
  if (field.use == FieldUse::kUnsupported) head = "Not supported. ";
  if (field.use == FieldUse::kAccepted) head = "Accepted, without effect. ";
  return StrCat(head, field.doc);
}

Json Members(Endpoint endpoint, std::string_view prefix);

Json FieldSchema(const RequestField& field, Endpoint endpoint) {
  Json schema = Json::Of({{"description", Description(field)}});
  std::vector<const char*> types = TypesOf(field.kind);
  if (!types.empty()) {
    types.push_back("null");
    schema.Set("type", Strings(types));
  }
  if (std::isfinite(field.min)) {
    schema.Set(field.above_min ? "exclusiveMinimum" : "minimum", Limit(field.min));
  }
  if (std::isfinite(field.max)) schema.Set("maximum", Limit(field.max));
  if (!field.neutral.empty()) schema.Set("default", NeutralOf(field));
  if (field.use == FieldUse::kUnsupported) schema.Set("x-unsupported", true);
  Json members = Members(endpoint, StrCat(field.name, "."));
  if (!members.AsObject().empty()) schema.Set("properties", std::move(members));
  return schema;
}

// The fields whose names are `prefix` and one word more.
Json Members(Endpoint endpoint, std::string_view prefix) {
  Json members = Json::MakeObject();
  for (const RequestField& field : RequestFields()) {
    if (!field.IsFor(endpoint) || !field.name.starts_with(prefix)) continue;
    const std::string_view name = field.name.substr(prefix.size());
    if (name.find('.') == name.npos) members.Set(name, FieldSchema(field, endpoint));
  }
  return members;
}

Json Typed(const char* type) { return Json::Of({{"type", type}}); }
Json ListOf(Json items) { return Json::Of({{"type", "array"}, {"items", std::move(items)}}); }
Json ObjectOf(Json members) {
  return Json::Of({{"type", "object"}, {"properties", std::move(members)}});
}
Json Ref(std::string_view name) {
  return Json::Of({{"$ref", StrCat("#/components/schemas/", name)}});
}

Json AnswerSchema(Json choice) {
  return ObjectOf(Json::Of({{"id", Typed("string")},
                            {"object", Typed("string")},
                            {"created", Typed("integer")},
                            {"model", Typed("string")},
                            {"choices", ListOf(std::move(choice))},
                            {"usage", Ref("Usage")}}));
}

Json Schemas() {
  const Json finish = Json::Of({{"type", Strings({"string", "null"})}});
  Json schemas = Json::MakeObject();
  for (const BodyEndpoint& endpoint : BodyEndpoints()) {
    Json body = ObjectOf(Members(endpoint.endpoint, ""));
    if (!endpoint.needed.empty()) body.Set("required", Strings(endpoint.needed));
    schemas.Set(endpoint.request, std::move(body));
  }
  const Json message =
      ObjectOf(Json::Of({{"role", Typed("string")}, {"content", Typed("string")}}));
  schemas.Set(
      "ChatCompletion",
      AnswerSchema(ObjectOf(Json::Of(
          {{"index", Typed("integer")}, {"message", message}, {"finish_reason", finish}}))));
  schemas.Set(
      "Completion",
      AnswerSchema(ObjectOf(Json::Of(
          {{"index", Typed("integer")}, {"text", Typed("string")}, {"finish_reason", finish}}))));
  schemas.Set("Usage", ObjectOf(Json::Of({{"prompt_tokens", Typed("integer")},
                                          {"completion_tokens", Typed("integer")},
                                          {"total_tokens", Typed("integer")}})));
  schemas.Set("Tokens", ObjectOf(Json::Of({{"count", Typed("integer")},
                                           {"max_model_len", Typed("integer")},
                                           {"tokens", ListOf(Typed("integer"))}})));
  schemas.Set("Text", ObjectOf(Json::Of({{"prompt", Typed("string")}})));
  const Json fault =
      ObjectOf(Json::Of({{"message", Typed("string")},
                         {"type", Typed("string")},
                         {"param", Json::Of({{"type", Strings({"string", "null"})}})},
                         {"code", Typed("integer")}}));
  schemas.Set("Error", ObjectOf(Json::Of({{"error", fault}})));
  return schemas;
}

Json Content(std::string_view type, Json schema) {
  Json content = Json::MakeObject();
  content.Set(type, Json::Of({{"schema", std::move(schema)}}));
  return content;
}

Json Response(const char* description, Json content) {
  return Json::Of({{"description", description}, {"content", std::move(content)}});
}

Json BodyOperation(const BodyEndpoint& endpoint) {
  Json good = Content("application/json", Ref(endpoint.answer));
  if (endpoint.endpoint == Endpoint::kChat || endpoint.endpoint == Endpoint::kCompletions) {
    good.Set("text/event-stream", Json::Of({{"schema", Typed("string")}}));
  }
  const Json body = Json::Of(
      {{"required", true}, {"content", Content("application/json", Ref(endpoint.request))}});
  const Json answers = Json::Of(
      {{"200", Response("The answer", std::move(good))},
       {"default", Response("What was wrong", Content("application/json", Ref("Error")))}});
  return Json::Of({{"summary", endpoint.summary}, {"requestBody", body}, {"responses", answers}});
}

Json PlainOperation(const PlainEndpoint& endpoint) {
  Json good = Response("The answer", Content(endpoint.content_type, Json::MakeObject()));
  Json operation = Json::Of(
      {{"summary", endpoint.summary}, {"responses", Json::Of({{"200", std::move(good)}})}});
  const std::string_view path = endpoint.path;
  if (const size_t open = path.find('{'); open != path.npos) {
    const Json parameter = Json::Of({{"name", path.substr(open + 1, path.size() - open - 2)},
                                     {"in", "path"},
                                     {"required", true},
                                     {"schema", Typed("string")}});
    operation.Set("parameters", Json(Json::Array{parameter}));
  }
  return operation;
}

std::string LimitsOf(const RequestField& field) {
  std::string limits;
  if (std::isfinite(field.min))
    limits = StrCat(field.above_min ? "> " : "≥ ", Limit(field.min).Dump());
  if (std::isfinite(field.max)) {
    limits += StrCat(limits.empty() ? "" : ", ", "≤ ", Limit(field.max).Dump());
  }
  return limits;
}

std::string FieldRow(const RequestField& field) {
  const std::vector<const char*> types = TypesOf(field.kind);
  std::string type = types.empty() ? "any" : types[0];
  if (types.size() > 1) type += StrCat(" or ", types[1]);
  if (const std::string limits = LimitsOf(field); !limits.empty()) type += StrCat(", ", limits);
  const std::string neutral = field.neutral.empty() ? "" : StrCat("`", field.neutral, "`");
  return StrCat("| `", field.name, "` | ", type, " | ", neutral, " | ", field.doc, " |\n");
}

// A table of the endpoint's fields of one use; "" when it has none.
std::string FieldTable(Endpoint endpoint, FieldUse use, std::string_view title) {
  std::string rows;
  for (const RequestField& field : RequestFields()) {
    if (field.IsFor(endpoint) && field.use == use) rows += FieldRow(field);
  }
  if (rows.empty()) return "";
  return StrCat("\n", title, "\n\n| field | value | default | |\n| --- | --- | --- | --- |\n",
                rows);
}

}  // namespace

Json OpenApiDocument() {
  Json paths = Json::MakeObject();
  for (const BodyEndpoint& endpoint : BodyEndpoints()) {
    paths.Set(endpoint.path, Json::Of({{"post", BodyOperation(endpoint)}}));
  }
  for (const PlainEndpoint& endpoint : kPlainEndpoints) {
    paths.Set(endpoint.path, Json::Of({{"get", PlainOperation(endpoint)}}));
  }
  const Json key = Json::Of({{"type", "http"}, {"scheme", "bearer"}});
  return Json::Of(
      {{"openapi", "3.1.0"},
       {"info", Json::Of({{"title", "erne"}, {"version", ERNE_VERSION}})},
       // Without a key, or with one where the server asks for it.
       {"security", Json(Json::Array{Json::MakeObject(), Json::Of({{"key", Json::MakeArray()}})})},
       {"paths", std::move(paths)},
       {"components",
        Json::Of({{"schemas", Schemas()}, {"securitySchemes", Json::Of({{"key", key}})}})}});
}

std::string FieldsPage() {
  std::string page =
      "# Request fields\n\n"
      "Made by `erne fields` from the table that requests are checked against; GET /openapi.json "
      "says the same to programs.\n"
      "null counts as absent. [api.md](api.md) tells what the fields do.\n";
  for (const BodyEndpoint& endpoint : BodyEndpoints()) {
    page += StrCat("\n## POST ", endpoint.path, "\n");
    page += FieldTable(endpoint.endpoint, FieldUse::kHonoured, "Honoured:");
    page += FieldTable(endpoint.endpoint, FieldUse::kAccepted, "Accepted, without effect:");
    page += FieldTable(endpoint.endpoint, FieldUse::kUnsupported,
                       "Not supported (a 400, unless null or the default):");
  }
  return page;
}

}  // namespace erne
