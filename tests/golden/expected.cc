#include "expected.h"

#include <optional>

#include "base/check.h"
#include "base/json.h"
#include "base/strings.h"

namespace erne::golden {
namespace {

const Json& At(const Json& object, const char* key) {
  const Json* value = object.Find(key);
  ERNE_CHECK(value != nullptr) << "expected values lack '" << key << "'";
  return *value;
}

std::vector<float> Floats(const Json& array) {
  std::vector<float> values;
  for (const Json& value : array.AsArray()) values.push_back(static_cast<float>(value.AsDouble()));
  return values;
}

// Ids; the router's are written as 5.0.
std::vector<int32_t> Ids(const Json& array) {
  std::vector<int32_t> ids;
  for (const Json& value : array.AsArray()) ids.push_back(static_cast<int32_t>(value.AsDouble()));
  return ids;
}

// "model.layers.3.mlp.gate": [logits, weights, ids], each with a row per position.
ExpectedRouter Router(const std::string& name, const Json& value) {
  const std::vector<std::string> parts = Split(name, '.');
  const std::optional<int64_t> layer =
      parts.size() > 2 ? ParseNumber<int64_t>(parts[2]) : std::nullopt;
  ERNE_CHECK(layer.has_value()) << "router_outputs: no layer in " << name;
  ExpectedRouter router;
  router.layer = *layer;
  ERNE_CHECK(value.AsArray().size() == 3) << name;
  for (const Json& row : value.AsArray()[0].AsArray()) router.logits.push_back(Floats(row));
  for (const Json& row : value.AsArray()[1].AsArray()) router.weights.push_back(Floats(row));
  for (const Json& row : value.AsArray()[2].AsArray()) router.ids.push_back(Ids(row));
  return router;
}

Result<Json> ReadJson(const FileSet& files, const char* name) {
  ERNE_ASSIGN_OR_RETURN(const std::string_view text, files.Text(name));
  Result<Json> json = Json::Parse(text);
  if (!json.ok()) return json.status().WithContext(files.path() + "/" + name);
  return json;
}

}  // namespace

Result<Expected> ReadExpected(const FileSet& files) {
  ERNE_ASSIGN_OR_RETURN(const Json json, ReadJson(files, "expected.json"));
  Expected expected;
  ERNE_ASSIGN_OR_RETURN(expected.dtype, StringMember(json, "dtype", ""));
  expected.prompt = Ids(At(json, "prompt_ids"));
  expected.greedy = Ids(At(json, "greedy_ids"));
  for (const auto& [position, row] : At(json, "logits_rows").AsObject()) {
    const std::optional<int64_t> index = ParseNumber<int64_t>(position);
    ERNE_CHECK(index.has_value()) << "logits_rows: '" << position << "' is no position";
    expected.logits_rows[*index] = Floats(row);
  }
  expected.argmax = Ids(At(json, "argmax_per_position"));
  expected.logsumexp = Floats(At(json, "logsumexp_per_position"));
  if (const Json* routers = json.Find("router_outputs")) {
    for (const auto& [name, value] : routers->AsObject()) {
      expected.routers.push_back(Router(name, value));
    }
  }
  ERNE_CHECK(!expected.prompt.empty() && !expected.greedy.empty());
  ERNE_CHECK(!expected.logits_rows.empty());
  ERNE_CHECK(expected.argmax.size() == expected.prompt.size());
  ERNE_CHECK(expected.logsumexp.size() == expected.prompt.size());
  return expected;
}

Result<std::vector<ExpectedGreedy>> ReadExpectedGreedy(const FileSet& files) {
  ERNE_ASSIGN_OR_RETURN(const Json json, ReadJson(files, "expected_greedy.json"));
  std::vector<ExpectedGreedy> cases;
  for (const Json& item : At(json, "cases").AsArray()) {
    ExpectedGreedy& greedy = cases.emplace_back();
    greedy.prompt = Ids(At(item, "prompt_ids"));
    greedy.ids = Ids(At(item, "greedy_ids"));
    greedy.margins = Floats(At(item, "top2_margins"));
    ERNE_CHECK(!greedy.prompt.empty() && !greedy.ids.empty());
    ERNE_CHECK(greedy.margins.size() == greedy.ids.size());
  }
  ERNE_CHECK(!cases.empty()) << "expected_greedy.json has no cases";
  return cases;
}

}  // namespace erne::golden
