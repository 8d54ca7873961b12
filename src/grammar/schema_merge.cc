#include "grammar/schema_merge.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"

namespace erne::grammar {
namespace {

constexpr std::array<std::string_view, 20> kAnnotations = {
    "title",    "description", "default",     "examples",     "example",
    "$schema",  "$id",         "$comment",    "$anchor",      "deprecated",
    "readOnly", "writeOnly",   "$defs",       "definitions",  "discriminator",
    "nullable", "strict",      "$vocabulary", "externalDocs", "contentMediaType"};

constexpr std::array<std::string_view, 6> kTypes = {"object", "array",   "string",
                                                    "number", "boolean", "null"};

Status CannotMerge(std::string_view place, std::string_view keyword) {
  return InvalidArgument(
      StrCat(place, ": `", keyword, "` is said twice, which is not supported here"));
}

std::string Unescaped(std::string_view step) {
  std::string name;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '~' && i + 1 < step.size() && (step[i + 1] == '0' || step[i + 1] == '1')) {
      name += step[++i] == '0' ? '~' : '/';
    } else {
      name += step[i];
    }
  }
  return name;
}

// Those of `a` that are in `b`, too; `number` holds `integer`.
std::vector<std::string> CommonTypes(const std::vector<std::string>& a,
                                     const std::vector<std::string>& b) {
  const auto holds = [](const std::vector<std::string>& types, std::string_view type) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  std::vector<std::string> common;
  for (const std::string& type : a) {
    if (holds(b, type) || (type == "integer" && holds(b, "number"))) common.push_back(type);
    if (type == "number" && !holds(b, type) && holds(b, "integer")) common.push_back("integer");
  }
  return common;
}

Json MergedProperties(const Json& a, const Json& b) {
  Json merged = a;
  for (const auto& [name, schema] : b.AsObject()) {
    const Json* known = a.Find(name);
    merged.Set(
        name, known == nullptr ? schema : Json::Of({{"allOf", Json(Json::Array{*known, schema})}}));
  }
  return merged;
}

Json Union(const Json::Array& a, const Json::Array& b) {
  Json::Array all = a;
  for (const Json& value : b) {
    if (std::find(all.begin(), all.end(), value) == all.end()) all.push_back(value);
  }
  return all;
}

Json Common(const Json::Array& a, const Json::Array& b) {
  Json::Array common;
  for (const Json& value : a) {
    if (std::find(b.begin(), b.end(), value) != b.end()) common.push_back(value);
  }
  return common;
}

bool IsLowerBound(std::string_view keyword) {
  return keyword.starts_with("min") || keyword == "exclusiveMinimum";
}
bool IsUpperBound(std::string_view keyword) {
  return keyword.starts_with("max") || keyword == "exclusiveMaximum";
}

// One keyword that both schemas have, with different values.
Result<Json> MergeValues(std::string_view keyword, const Json& a, const Json& b,
                         std::string_view place) {
  if ((IsLowerBound(keyword) || IsUpperBound(keyword)) && a.is_number() && b.is_number()) {
    return (a.AsDouble() < b.AsDouble()) == IsUpperBound(keyword) ? a : b;
  }
  if (keyword == "properties" && a.is_object() && b.is_object()) return MergedProperties(a, b);
  if (keyword == "required" && a.is_array() && b.is_array()) return Union(a.AsArray(), b.AsArray());
  if (keyword == "enum" && a.is_array() && b.is_array()) return Common(a.AsArray(), b.AsArray());
  if (keyword == "items") return Json::Of({{"allOf", Json(Json::Array{a, b})}});
  return CannotMerge(place, keyword);
}

const Json& Resolved(const Json& schema, const Json& root) {
  const Json* at = &schema;
  for (int steps = 0; steps < 16; ++steps) {
    const Json* reference = at->Find("$ref");
    if (reference == nullptr || !reference->is_string()) break;
    const Result<const Json*> found = ResolveReference(root, reference->AsString());
    if (!found.ok()) break;
    at = *found;
  }
  return *at;
}

// The only values that the schema allows; false when it does not list them.
bool ListsValues(const Json& schema, Json::Array& values) {
  if (const Json* constant = schema.Find("const")) {
    values = {*constant};
    return true;
  }
  const Json* listed = schema.Find("enum");
  if (listed == nullptr || !listed->is_array()) return false;
  values = listed->AsArray();
  return true;
}

bool ListDisjointValues(const Json& a, const Json& b) {
  Json::Array of_a;
  Json::Array of_b;
  if (!ListsValues(a, of_a) || !ListsValues(b, of_b)) return false;
  // As numbers 1 and 1.0 are the same value.
  const auto same = [](const Json& x, const Json& y) {
    return x == y || (x.is_number() && y.is_number() && x.AsDouble() == y.AsDouble());
  };
  for (const Json& x : of_a) {
    if (std::any_of(of_b.begin(), of_b.end(), [&](const Json& y) { return same(x, y); })) {
      return false;
    }
  }
  return true;
}

bool Requires(const Json& schema, const std::string& name) {
  const Json* required = schema.Find("required");
  if (required == nullptr || !required->is_array()) return false;
  const Json::Array& names = required->AsArray();
  return std::find(names.begin(), names.end(), Json(name)) != names.end();
}

// Whether `a` requires a member that `b` does not allow, or not with that value.
bool RequiresWhatIsNotIn(const Json& a, const Json& b, const Json& root) {
  const Json* required = a.Find("required");
  if (required == nullptr || !required->is_array()) return false;
  const auto property = [&root](const Json& schema, const std::string& name) -> const Json* {
    const Json* properties = schema.Find("properties");
    const Json* found = properties == nullptr ? nullptr : properties->Find(name);
    return found == nullptr ? nullptr : &Resolved(*found, root);
  };
  const Json* others = b.Find("additionalProperties");
  for (const Json& name : required->AsArray()) {
    if (!name.is_string()) continue;
    const Json* of_a = property(a, name.AsString());
    const Json* of_b = property(b, name.AsString());
    if (of_b == nullptr && others != nullptr && *others == Json(false)) return true;
    if (of_a != nullptr && of_b != nullptr && Requires(b, name.AsString()) &&
        ListDisjointValues(*of_a, *of_b)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool IsAnnotation(std::string_view keyword) {
  return keyword.starts_with("x-") ||
         std::find(kAnnotations.begin(), kAnnotations.end(), keyword) != kAnnotations.end();
}

Result<const Json*> ResolveReference(const Json& root, std::string_view reference) {
  const Status fault =
      InvalidArgument(StrCat("$ref \"", reference, "\" does not lead to a place in the schema"));
  if (!reference.starts_with('#')) return fault;
  const Json* at = &root;
  std::string_view path = reference.substr(1);
  if (path.empty()) return at;
  if (!path.starts_with('/')) return fault;
  for (const std::string& step : Split(path.substr(1), '/')) {
    if (at->is_array()) {
      const std::optional<uint32_t> index = ParseNumber<uint32_t>(step);
      if (!index || *index >= at->AsArray().size()) return fault;
      at = &at->AsArray()[*index];
    } else {
      at = at->Find(Unescaped(step));
      if (at == nullptr) return fault;
    }
  }
  return at;
}

Result<std::vector<std::string>> TypesOf(const Json& schema, std::string_view place) {
  const Json* type = schema.Find("type");
  if (type == nullptr) return std::vector<std::string>(kTypes.begin(), kTypes.end());
  const Json::Array one = {*type};
  std::vector<std::string> types;
  for (const Json& name : type->is_array() ? type->AsArray() : one) {
    const bool known = name.is_string() &&
                       (name.AsString() == "integer" ||
                        std::find(kTypes.begin(), kTypes.end(), name.AsString()) != kTypes.end());
    if (!known) {
      return InvalidArgument(StrCat(place, "/type is ", name.Dump(), ", no type of JSON"));
    }
    if (std::find(types.begin(), types.end(), name.AsString()) == types.end()) {
      types.push_back(name.AsString());
    }
  }
  if (std::find(types.begin(), types.end(), "number") != types.end()) {
    std::erase(types, "integer");
  }
  return types;
}

Result<Json> MergeSchemas(const Json& a, const Json& b, std::string_view place) {
  if (a.is_bool()) return a.AsBool() ? b : a;
  if (b.is_bool()) return b.AsBool() ? a : b;
  if (!a.is_object() || !b.is_object()) {
    return InvalidArgument(StrCat(place, " must be an object or a boolean"));
  }
  // Otherwise a member that only one names would be judged by the other's additionalProperties.
  const Json* others_a = a.Find("additionalProperties");
  const Json* others_b = b.Find("additionalProperties");
  const auto restricts = [](const Json* others) {
    return others != nullptr && *others != Json(true);
  };
  if (restricts(others_a) || restricts(others_b)) {
    const bool same = others_a != nullptr && others_b != nullptr && *others_a == *others_b &&
                      a.Find("properties") == nullptr && b.Find("properties") == nullptr;
    const bool alone = (others_a == nullptr && a.Find("properties") == nullptr) ||
                       (others_b == nullptr && b.Find("properties") == nullptr);
    if (!same && !alone) return CannotMerge(place, "additionalProperties");
  }
  Json merged = a;
  for (const auto& [keyword, value] : b.AsObject()) {
    const Json* known = a.Find(keyword);
    if (known == nullptr || IsAnnotation(keyword)) {
      merged.Set(keyword, value);
    } else if (keyword == "type") {
      ERNE_ASSIGN_OR_RETURN(const std::vector<std::string> of_a, TypesOf(a, place));
      ERNE_ASSIGN_OR_RETURN(const std::vector<std::string> of_b, TypesOf(b, place));
      Json types = Json::MakeArray();
      for (const std::string& type : CommonTypes(of_a, of_b)) types.Push(type);
      merged.Set(keyword, std::move(types));
    } else if (*known != value) {
      ERNE_ASSIGN_OR_RETURN(Json both, MergeValues(keyword, *known, value, place));
      merged.Set(keyword, std::move(both));
    }
  }
  return merged;
}

bool AreDisjoint(const Json& a, const Json& b, const Json& root) {
  const Json& x = Resolved(a, root);
  const Json& y = Resolved(b, root);
  if (!x.is_object() || !y.is_object()) return x == Json(false) || y == Json(false);
  const Result<std::vector<std::string>> of_x = TypesOf(x, "#");
  const Result<std::vector<std::string>> of_y = TypesOf(y, "#");
  if (!of_x.ok() || !of_y.ok()) return false;
  if (CommonTypes(*of_x, *of_y).empty() || ListDisjointValues(x, y)) return true;
  const auto only_objects = [](const std::vector<std::string>& types) {
    return types.size() == 1 && types[0] == "object";
  };
  return only_objects(*of_x) && only_objects(*of_y) &&
         (RequiresWhatIsNotIn(x, y, root) || RequiresWhatIsNotIn(y, x, root));
}

}  // namespace erne::grammar
