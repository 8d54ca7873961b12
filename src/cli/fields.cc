#include "cli/fields.h"

#include <optional>

#include "api/openapi.h"
#include "base/strings.h"
#include "cli/command.h"
#include "cli/flags.h"

namespace erne {

int RunFields(const std::vector<std::string>& arguments) {
  bool openapi = false;
  FlagTable flags("erne fields [flags]", {"Lists the fields that requests may have, as Markdown.",
                                          "列出请求可以使用的字段（Markdown）。"});
  flags.Add("openapi", &openapi,
            {"Prints the OpenAPI document instead, as GET /openapi.json does",
             "改为输出 OpenAPI 文档，与 GET /openapi.json 相同"});
  if (const std::optional<int> end = ParseOrEnd("fields", flags, arguments)) return *end;
  const std::string text = openapi ? StrCat(OpenApiDocument().Dump(), "\n") : FieldsPage();
  return PrintAndEnd("fields", text, 0);
}

}  // namespace erne
