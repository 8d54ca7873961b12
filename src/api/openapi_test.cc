#include "api/openapi.h"

#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "api/schema.h"
#include "base/strings.h"
#include "text/test_support.h"

namespace erne {
namespace {

const Json& At(const Json& json, std::initializer_list<std::string_view> path) {
  const Json* found = &json;
  for (const std::string_view name : path) {
    found = found->Find(name);
    ERNE_CHECK(found != nullptr) << name;
  }
  return *found;
}

TEST(OpenApi, HasEveryFieldOfEveryEndpoint) {
  const Json document = OpenApiDocument();
  const std::pair<Endpoint, const char*> bodies[] = {{Endpoint::kChat, "ChatCompletionRequest"},
                                                     {Endpoint::kCompletions, "CompletionRequest"},
                                                     {Endpoint::kTokenize, "TokenizeRequest"},
                                                     {Endpoint::kDetokenize, "DetokenizeRequest"}};
  for (const auto& [endpoint, name] : bodies) {
    const Json& members = At(document, {"components", "schemas", name, "properties"});
    for (const RequestField& field : RequestFields()) {
      if (!field.IsFor(endpoint)) continue;
      const size_t dot = field.name.find('.');
      const Json* found = members.Find(field.name.substr(0, dot));
      ASSERT_NE(found, nullptr) << field.name;
      if (dot != field.name.npos) {
        EXPECT_NE(At(*found, {"properties"}).Find(field.name.substr(dot + 1)), nullptr)
            << field.name;
      }
    }
  }
}

TEST(OpenApi, SaysWhatTheTableSays) {
  const Json document = OpenApiDocument();
  const Json& chat = At(document, {"components", "schemas", "ChatCompletionRequest"});
  EXPECT_EQ(At(chat, {"required"}).Dump(), R"(["messages"])");
  const Json& top_p = At(chat, {"properties", "top_p"});
  EXPECT_EQ(At(top_p, {"type"}).Dump(), R"(["number","null"])");
  EXPECT_EQ(At(top_p, {"exclusiveMinimum"}), Json(0));
  EXPECT_EQ(At(top_p, {"maximum"}), Json(1));
  EXPECT_EQ(At(top_p, {"default"}), Json(1));
  EXPECT_EQ(At(chat, {"properties", "use_beam_search", "x-unsupported"}), Json(true));
}

TEST(OpenApi, ReferencesLeadSomewhere) {
  const Json document = OpenApiDocument();
  const std::function<void(const Json&)> check = [&](const Json& json) {
    if (json.is_array()) {
      for (const Json& item : json.AsArray()) check(item);
    }
    if (!json.is_object()) return;
    for (const auto& [name, value] : json.AsObject()) {
      if (name == "$ref") {
        const std::string target = value.AsString().substr(value.AsString().rfind('/') + 1);
        EXPECT_NE(At(document, {"components", "schemas"}).Find(target), nullptr) << target;
      }
      check(value);
    }
  };
  check(document);
}

TEST(FieldsPage, IsTheOneInTheDocumentation) {
  std::ifstream file(SourceFolder("docs/request-fields.md"));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), FieldsPage()) << "erne fields > docs/request-fields.md";
}

}  // namespace
}  // namespace erne
