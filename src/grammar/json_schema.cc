#include "grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "grammar/json_text.h"
#include "grammar/regex.h"
#include "grammar/schema_merge.h"
#include "grammar/string_formats.h"

namespace erne::grammar {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxSchemas = 10'000;
constexpr size_t kMaxEnumBytes = 256 * 1024;
// Whole bounds beyond this are no bounds: numbers are shorter (json_text.h).
constexpr double kLargestBound = 1e18;

const Characters kAllCharacters = {{0, 0x10FFFF}};

using Keywords = std::vector<std::string_view>;

// What each type understands beside what all do.
const std::map<std::string_view, Keywords>& KeywordsOfTypes() {
  static const std::map<std::string_view, Keywords> keywords = {
      {"object",
       {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}},
      {"array", {"items", "prefixItems", "minItems", "maxItems"}},
      {"string", {"minLength", "maxLength", "pattern", "format"}},
      {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format"}},
      {"integer", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format"}},
      {"boolean", {}},
      {"null", {}}};
  return keywords;
}

bool Contains(const Keywords& keywords, std::string_view keyword) {
  return std::find(keywords.begin(), keywords.end(), keyword) != keywords.end();
}

bool IsKnown(std::string_view keyword) {
  static const Keywords general = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"};
  if (Contains(general, keyword)) return true;
  return std::any_of(KeywordsOfTypes().begin(), KeywordsOfTypes().end(),
                     [&](const auto& of_type) { return Contains(of_type.second, keyword); });
}

Status Fault(std::string_view place, std::string_view what) {
  return InvalidArgument(StrCat(place, " ", what));
}

// A count like minLength; `fallback` when it is absent.
Result<int64_t> CountOf(const Json& schema, std::string_view keyword, int64_t fallback,
                        const std::string& place) {
  const Json* value = schema.Find(keyword);
  if (value == nullptr) return fallback;
  const bool whole = value->is_number() && value->AsDouble() >= 0 &&
                     value->AsDouble() == std::floor(value->AsDouble());
  if (!whole) return Fault(StrCat(place, "/", keyword), "must be a whole number from 0 on");
  return static_cast<int64_t>(std::min(value->AsDouble(), kLargestBound));
}

bool JsonIsOfType(const Json& value, std::string_view type) {
  if (type == "number") return value.is_number();
  if (type == "integer") {
    return value.is_int() ||
           (value.is_double() && value.AsDouble() == std::floor(value.AsDouble()));
  }
  return value.KindName() == type;
}

class SchemaReader {
 public:
  explicit SchemaReader(const Json& root) : root_(root), rules_(grammar_) {}

  Result<Grammar> Read() {
    const int32_t rule = grammar_.Declare("#");
    references_["#"] = rule;
    ERNE_ASSIGN_OR_RETURN(Expr body, Value(root_, "#"));
    grammar_.Define(rule, std::move(body));
    return std::move(grammar_);
  }

 private:
  // One schema, at `place`, as what values it allows.
  Result<Expr> Value(const Json& schema, const std::string& place);
  Result<Expr> Counted(const Json& schema, const std::string& place);
  Result<Expr> Reference(const std::string& reference, const std::string& place);
  Result<Expr> Alternatives(const Json& schema, std::string_view keyword, const std::string& place);
  Result<Json> MergeAll(const Json& schema, const std::string& place);
  Result<Expr> Listed(const Json& schema, const std::string& place);
  Result<Expr> OfTypes(const Json& schema, const std::string& place);
  Result<Expr> OfType(std::string_view type, const Json& schema, const std::string& place);

  Result<Expr> String(const Json& schema, const std::string& place);
  Result<Expr> Number(bool integer, const Json& schema, const std::string& place);
  Result<Expr> Array(const Json& schema, const std::string& place);
  Result<Expr> Object(const Json& schema, const std::string& place);

  struct Member {
    Expr text;  // name and value
    bool required = false;
  };
  Result<std::vector<Member>> Members(const Json& schema, const std::string& place);
  Result<Expr> FurtherMember(const Json& schema, const std::string& place);
  Expr MemberText(Expr name, Expr value) {
    return Concat({std::move(name), Literal(":"), Gap(), std::move(value)});
  }
  Expr InOrder(const std::vector<Member>& members, const Expr& further, const std::string& place);

  const Json& root_;
  Grammar grammar_;
  JsonRules rules_;
  std::map<std::string, int32_t> references_;
  int depth_ = 0;
  size_t schemas_ = 0;
};

Result<Expr> SchemaReader::Value(const Json& schema, const std::string& place) {
  if (++schemas_ > kMaxSchemas) {
    return Fault(place, StrCat("is one schema too many: at most ", kMaxSchemas));
  }
  if (++depth_ > kMaxDepth) {
    return Fault(place, StrCat("is nested more than ", kMaxDepth, " deep"));
  }
  Result<Expr> value = Counted(schema, place);
  --depth_;
  return value;
}

Result<Expr> SchemaReader::Counted(const Json& schema, const std::string& place) {
  if (schema.is_bool()) return schema.AsBool() ? rules_.Value() : Choice({});
  if (!schema.is_object()) return Fault(place, "must be an object or a boolean");
  for (const auto& [keyword, value] : schema.AsObject()) {
    if (!IsKnown(keyword) && !IsAnnotation(keyword)) {
      return Fault(StrCat(place, "/", keyword), "is not supported");
    }
  }
  const bool alone = std::all_of(schema.AsObject().begin(), schema.AsObject().end(),
                                 [](const Json::Member& member) {
                                   return member.first == "$ref" || IsAnnotation(member.first);
                                 });
  if (const Json* reference = schema.Find("$ref"); reference != nullptr && alone) {
    if (!reference->is_string()) return Fault(StrCat(place, "/$ref"), "must be a string");
    return Reference(reference->AsString(), place);
  }
  if (schema.Find("$ref") != nullptr || schema.Find("allOf") != nullptr) {
    ERNE_ASSIGN_OR_RETURN(const Json merged, MergeAll(schema, place));
    return Value(merged, place);
  }
  for (const std::string_view keyword : {"anyOf", "oneOf"}) {
    if (schema.Find(keyword) != nullptr) return Alternatives(schema, keyword, place);
  }
  if (schema.Find("enum") != nullptr || schema.Find("const") != nullptr) {
    return Listed(schema, place);
  }
  return OfTypes(schema, place);
}

Result<Expr> SchemaReader::Reference(const std::string& reference, const std::string& place) {
  const auto known = references_.find(reference);
  if (known != references_.end()) return Call(known->second);
  const Result<const Json*> target = ResolveReference(root_, reference);
  if (!target.ok()) return Fault(place, StrCat(": ", target.status().message()));
  const int32_t rule = grammar_.Declare(reference);
  references_[reference] = rule;
  ERNE_ASSIGN_OR_RETURN(Expr body, Value(**target, reference));
  grammar_.Define(rule, std::move(body));
  return Call(rule);
}

// `schema` without $ref and allOf: what they say is said in it.
Result<Json> SchemaReader::MergeAll(const Json& schema, const std::string& place) {
  Json merged = schema;
  std::erase_if(merged.AsObject(), [](const Json::Member& member) {
    return member.first == "$ref" || member.first == "allOf";
  });
  if (const Json* reference = schema.Find("$ref")) {
    if (!reference->is_string()) return Fault(StrCat(place, "/$ref"), "must be a string");
    const Result<const Json*> target = ResolveReference(root_, reference->AsString());
    if (!target.ok()) return Fault(place, StrCat(": ", target.status().message()));
    ERNE_ASSIGN_OR_RETURN(merged, MergeSchemas(merged, **target, place));
  }
  const Json* parts = schema.Find("allOf");
  if (parts == nullptr) return merged;
  if (!parts->is_array() || parts->AsArray().empty()) {
    return Fault(StrCat(place, "/allOf"), "must be a list that is not empty");
  }
  for (size_t i = 0; i < parts->AsArray().size(); ++i) {
    ERNE_ASSIGN_OR_RETURN(merged,
                          MergeSchemas(merged, parts->AsArray()[i], StrCat(place, "/allOf/", i)));
    // A reference within it is followed by the next round of this.
    if (merged.Find("$ref") != nullptr && i + 1 < parts->AsArray().size()) {
      const Json::Array rest(parts->AsArray().begin() + static_cast<ptrdiff_t>(i) + 1,
                             parts->AsArray().end());
      const Json* inner = merged.Find("allOf");
      Json::Array all = inner == nullptr ? Json::Array{} : inner->AsArray();
      all.insert(all.end(), rest.begin(), rest.end());
      merged.Set("allOf", Json(std::move(all)));
      break;
    }
  }
  return merged;
}

Result<Expr> SchemaReader::Alternatives(const Json& schema, std::string_view keyword,
                                        const std::string& place) {
  const std::string here = StrCat(place, "/", keyword);
  const Json& listed = *schema.Find(keyword);
  if (!listed.is_array() || listed.AsArray().empty()) {
    return Fault(here, "must be a list that is not empty");
  }
  Json base = schema;
  std::erase_if(base.AsObject(), [&](const Json::Member& member) {
    return member.first == keyword || IsAnnotation(member.first);
  });
  const Json::Array& alternatives = listed.AsArray();
  std::vector<Expr> ways;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    const std::string at = StrCat(here, "/", i);
    for (size_t j = 0; keyword == "oneOf" && j < i; ++j) {
      if (!AreDisjoint(alternatives[j], alternatives[i], root_)) {
        return Fault(here, StrCat("is not supported for alternatives that may match the same value "
                                  "(here ",
                                  j, " and ", i, "); anyOf is"));
      }
    }
    if (base.AsObject().empty()) {
      ERNE_ASSIGN_OR_RETURN(Expr way, Value(alternatives[i], at));
      ways.push_back(std::move(way));
      continue;
    }
    const Json both = Json::Of({{"allOf", Json(Json::Array{base, alternatives[i]})}});
    ERNE_ASSIGN_OR_RETURN(Expr way, Value(both, at));
    ways.push_back(std::move(way));
  }
  return Choice(std::move(ways));
}

// enum and const.
Result<Expr> SchemaReader::Listed(const Json& schema, const std::string& place) {
  for (const auto& [keyword, value] : schema.AsObject()) {
    if (keyword == "enum" || keyword == "const" || keyword == "type" || IsAnnotation(keyword)) {
      continue;
    }
    return Fault(StrCat(place, "/", keyword), "is not supported beside enum and const");
  }
  Json::Array values;
  if (const Json* listed = schema.Find("enum")) {
    if (!listed->is_array()) return Fault(StrCat(place, "/enum"), "must be a list");
    values = listed->AsArray();
  }
  if (const Json* constant = schema.Find("const")) {
    const bool is_listed = schema.Find("enum") == nullptr ||
                           std::find(values.begin(), values.end(), *constant) != values.end();
    values = is_listed ? Json::Array{*constant} : Json::Array{};
  }
  ERNE_ASSIGN_OR_RETURN(const std::vector<std::string> types, TypesOf(schema, place));
  std::vector<Expr> ways;
  size_t bytes = 0;
  for (const Json& value : values) {
    const bool fits = std::any_of(types.begin(), types.end(), [&](const std::string& type) {
      return JsonIsOfType(value, type);
    });
    if (!fits) continue;
    ways.push_back(JsonLiteral(value));
    bytes += value.Dump().size();
  }
  if (ways.empty()) return Fault(place, "allows no value");
  if (bytes > kMaxEnumBytes) {
    return Fault(StrCat(place, "/enum"), StrCat("has more than ", kMaxEnumBytes, " bytes"));
  }
  return Choice(std::move(ways));
}

Result<Expr> SchemaReader::OfTypes(const Json& schema, const std::string& place) {
  ERNE_ASSIGN_OR_RETURN(std::vector<std::string> types, TypesOf(schema, place));
  // Without a type, keywords tell which are meant: {"properties": ...} means objects.
  if (schema.Find("type") == nullptr) {
    std::vector<std::string> meant;
    for (const std::string& type : types) {
      const Keywords& keywords = KeywordsOfTypes().at(type);
      const bool said = std::any_of(schema.AsObject().begin(), schema.AsObject().end(),
                                    [&](const Json::Member& member) {
                                      return Contains(keywords, member.first) &&
                                             (member.first != "format" || type == "string");
                                    });
      if (said) meant.push_back(type);
    }
    if (meant.empty()) return rules_.Value();
    types = std::move(meant);
  }
  std::vector<Expr> ways;
  for (const std::string& type : types) {
    ERNE_ASSIGN_OR_RETURN(Expr way, OfType(type, schema, place));
    ways.push_back(std::move(way));
  }
  return Choice(std::move(ways));
}

Result<Expr> SchemaReader::OfType(std::string_view type, const Json& schema,
                                  const std::string& place) {
  if (type == "string") return String(schema, place);
  if (type == "integer" || type == "number") return Number(type == "integer", schema, place);
  if (type == "boolean") return Choice({Literal("true"), Literal("false")});
  if (type == "null") return Literal("null");
  // Rules of their own: what is large is not written out twice.
  ERNE_ASSIGN_OR_RETURN(Expr body, type == "array" ? Array(schema, place) : Object(schema, place));
  const int32_t rule = grammar_.Declare(place);
  grammar_.Define(rule, std::move(body));
  return Call(rule);
}

Result<Expr> SchemaReader::String(const Json& schema, const std::string& place) {
  ERNE_ASSIGN_OR_RETURN(const int64_t least, CountOf(schema, "minLength", 0, place));
  ERNE_ASSIGN_OR_RETURN(const int64_t most, CountOf(schema, "maxLength", kUnbounded, place));
  const RegexOptions whole = {.spell = SpellInJson, .search = false};
  std::vector<Expr> rules;
  if (least > 0 || most != kUnbounded) {
    if (most != kUnbounded && most < least) return Fault(place, "allows no string");
    rules.push_back(Repeat(SpellInJson(kAllCharacters), least, most));
  }
  if (const Json* pattern = schema.Find("pattern")) {
    if (!pattern->is_string()) return Fault(StrCat(place, "/pattern"), "must be a string");
    Result<Expr> read = ParseRegex(pattern->AsString(), {.spell = SpellInJson, .search = true});
    if (!read.ok()) return Fault(StrCat(place, "/pattern:"), read.status().message());
    rules.push_back(*std::move(read));
  }
  if (const Json* format = schema.Find("format")) {
    const std::string_view pattern =
        format->is_string() ? PatternOfFormat(format->AsString()) : std::string_view();
    if (pattern.empty()) {
      return Fault(StrCat(place, "/format"),
                   StrCat(format->Dump(), " is not supported, only ", KnownFormats(), " are"));
    }
    ERNE_ASSIGN_OR_RETURN(Expr read, ParseRegex(pattern, whole));
    rules.push_back(std::move(read));
  }
  if (rules.empty()) return rules_.String();
  Expr body = rules[0];
  for (size_t i = 1; i < rules.size(); ++i) body = Both(std::move(body), rules[i]);
  return Quoted(std::move(body));
}

Result<Expr> SchemaReader::Number(bool integer, const Json& schema, const std::string& place) {
  NumberRange range;
  // Of a bound and its exclusive form the stricter one holds.
  const auto read = [&](std::string_view keyword, bool exclusive, bool lower) -> Status {
    const Json* value = schema.Find(keyword);
    if (value == nullptr) return {};
    const std::string here = StrCat(place, "/", keyword);
    if (!value->is_number()) return Fault(here, "must be a number");
    double bound = value->AsDouble();
    if (std::abs(bound) > kLargestBound) return Fault(here, "is beyond 1e18");
    bool strict = exclusive;
    if (bound != std::floor(bound)) {
      if (!integer) return Fault(here, "must be whole for numbers with a fraction");
      bound = lower ? std::ceil(bound) : std::floor(bound);
      strict = false;
    }
    const int64_t whole = value->is_int() ? value->AsInt() : static_cast<int64_t>(bound);
    std::optional<int64_t>& to = lower ? range.min : range.max;
    bool& to_strict = lower ? range.above_min : range.below_max;
    const bool stricter = !to || (lower ? whole > *to : whole < *to) || (whole == *to && strict);
    if (!stricter) return {};
    to = whole;
    to_strict = strict;
    return {};
  };
  ERNE_RETURN_IF_ERROR(read("minimum", false, true));
  ERNE_RETURN_IF_ERROR(read("exclusiveMinimum", true, true));
  ERNE_RETURN_IF_ERROR(read("maximum", false, false));
  ERNE_RETURN_IF_ERROR(read("exclusiveMaximum", true, false));
  const int32_t rule = grammar_.Declare(place);
  grammar_.Define(rule, integer ? IntegerText(range) : NumberText(range));
  return Call(rule);
}

Result<Expr> SchemaReader::Array(const Json& schema, const std::string& place) {
  ERNE_ASSIGN_OR_RETURN(const int64_t least, CountOf(schema, "minItems", 0, place));
  ERNE_ASSIGN_OR_RETURN(int64_t most, CountOf(schema, "maxItems", kUnbounded, place));
  std::vector<Expr> first;
  if (const Json* prefix = schema.Find("prefixItems")) {
    if (!prefix->is_array()) return Fault(StrCat(place, "/prefixItems"), "must be a list");
    for (size_t i = 0; i < prefix->AsArray().size(); ++i) {
      ERNE_ASSIGN_OR_RETURN(Expr item,
                            Value(prefix->AsArray()[i], StrCat(place, "/prefixItems/", i)));
      first.push_back(std::move(item));
    }
  }
  const Json* items = schema.Find("items");
  if (items != nullptr && items->is_array()) {
    return Fault(StrCat(place, "/items"), "as a list is not supported: prefixItems is");
  }
  const auto fixed = static_cast<int64_t>(first.size());
  Expr item = nullptr;
  if (items != nullptr && *items == Json(false)) {
    most = most == kUnbounded ? fixed : std::min(most, fixed);
  } else if (items != nullptr) {
    ERNE_ASSIGN_OR_RETURN(item, Value(*items, StrCat(place, "/items")));
  } else {
    item = rules_.Value();
  }
  if (most != kUnbounded && most < least) return Fault(place, "allows no array");
  if (most == 0) return Literal("[]");
  if (first.empty()) {
    return Enclosed('[', grammar::Listed(item, std::max<int64_t>(1, least), most), least == 0, ']');
  }
  // Items may be missing from the end, down to minItems: from the last to the first.
  Expr rest = Literal("");
  if (item != nullptr && (most == kUnbounded || most > fixed)) {
    rest = Repeat(Concat({Comma(), item}), std::max<int64_t>(0, least - fixed),
                  most == kUnbounded ? most : most - fixed);
  }
  for (int64_t i = fixed - 1; i > 0; --i) {
    Expr from_here = Concat({Comma(), first[static_cast<size_t>(i)], rest});
    const bool must = i < least;
    const bool may = most == kUnbounded || i < most;
    rest = !may ? Literal("") : must ? from_here : Optional(from_here);
  }
  return Enclosed('[', Concat({first[0], rest}), least == 0, ']');
}

Result<std::vector<SchemaReader::Member>> SchemaReader::Members(const Json& schema,
                                                                const std::string& place) {
  std::vector<std::string> required;
  if (const Json* names = schema.Find("required")) {
    if (!names->is_array()) return Fault(StrCat(place, "/required"), "must be a list of names");
    for (const Json& name : names->AsArray()) {
      if (!name.is_string()) return Fault(StrCat(place, "/required"), "must be a list of names");
      required.push_back(name.AsString());
    }
  }
  const auto is_required = [&](const std::string& name) {
    return std::find(required.begin(), required.end(), name) != required.end();
  };
  std::vector<Member> members;
  const Json* properties = schema.Find("properties");
  if (properties != nullptr && !properties->is_object()) {
    return Fault(StrCat(place, "/properties"), "must be an object");
  }
  const Json none = Json::MakeObject();
  for (const auto& [name, value] :
       properties == nullptr ? none.AsObject() : properties->AsObject()) {
    if (value == Json(false) && !is_required(name)) continue;
    ERNE_ASSIGN_OR_RETURN(Expr text, Value(value, StrCat(place, "/properties/", name)));
    members.push_back({MemberText(JsonLiteral(name), std::move(text)), is_required(name)});
  }
  // Required and not described: whatever further members are.
  const Json* others = schema.Find("additionalProperties");
  std::set<std::string> seen;
  for (const std::string& name : required) {
    const bool described = properties != nullptr && properties->Find(name) != nullptr;
    if (described || !seen.insert(name).second) continue;
    ERNE_ASSIGN_OR_RETURN(Expr text, Value(others == nullptr ? Json(true) : *others,
                                           StrCat(place, "/additionalProperties")));
    members.push_back({MemberText(JsonLiteral(name), std::move(text)), true});
  }
  return members;
}

// A member that is not described; null when there may be none.
Result<Expr> SchemaReader::FurtherMember(const Json& schema, const std::string& place) {
  const Json* properties = schema.Find("properties");
  const Json* others = schema.Find("additionalProperties");
  if (others == nullptr && properties != nullptr) return Expr(nullptr);
  if (others != nullptr && *others == Json(false)) return Expr(nullptr);
  std::vector<std::string> taken;
  if (properties != nullptr) {
    for (const auto& [name, value] : properties->AsObject()) taken.push_back(name);
  }
  if (const Json* required = schema.Find("required")) {
    for (const Json& name : required->AsArray()) taken.push_back(name.AsString());
  }
  Expr value = rules_.Value();
  if (others != nullptr) {
    ERNE_ASSIGN_OR_RETURN(value, Value(*others, StrCat(place, "/additionalProperties")));
  }
  return MemberText(rules_.NameBut(taken), std::move(value));
}

Result<Expr> SchemaReader::Object(const Json& schema, const std::string& place) {
  ERNE_ASSIGN_OR_RETURN(const std::vector<Member> members, Members(schema, place));
  ERNE_ASSIGN_OR_RETURN(const Expr further, FurtherMember(schema, place));
  ERNE_ASSIGN_OR_RETURN(const int64_t least, CountOf(schema, "minProperties", 0, place));
  ERNE_ASSIGN_OR_RETURN(const int64_t most, CountOf(schema, "maxProperties", kUnbounded, place));
  if (members.empty()) {
    // A name may be written twice and is then one member: more than one cannot be promised.
    if (least > 1) return Fault(StrCat(place, "/minProperties"), "above 1 is not supported");
    if (further == nullptr || most == 0) {
      return least == 0 ? Literal("{}") : Choice({});
    }
    return Enclosed('{', grammar::Listed(further, 1, most), least == 0, '}');
  }
  const auto required = std::count_if(members.begin(), members.end(),
                                      [](const Member& member) { return member.required; });
  if (least > required) {
    return Fault(StrCat(place, "/minProperties"), "above the required ones is not supported");
  }
  const bool bounded = further == nullptr && most >= static_cast<int64_t>(members.size());
  if (most != kUnbounded && !bounded) {
    return Fault(StrCat(place, "/maxProperties"), "is not supported beside properties");
  }
  return Enclosed('{', InOrder(members, further, place), required == 0, '}');
}

// Members in their order, those that are not required perhaps not there, then further ones; one at
// least. rest[i]: what may come behind a member, from member i on.
Expr SchemaReader::InOrder(const std::vector<Member>& members, const Expr& further,
                           const std::string& place) {
  std::vector<Expr> rest(members.size() + 1);
  rest[members.size()] =
      further == nullptr ? Literal("") : Repeat(Concat({Comma(), further}), 0, kUnbounded);
  for (size_t i = members.size(); i-- > 0;) {
    Expr member = Concat({Comma(), members[i].text});
    if (!members[i].required) member = Optional(std::move(member));
    const int32_t rule = grammar_.Declare(place);
    grammar_.Define(rule, Concat({std::move(member), rest[i + 1]}));
    rest[i] = Call(rule);
  }
  std::vector<Expr> ways;
  bool may_skip = true;
  for (size_t i = 0; i < members.size() && may_skip; ++i) {
    ways.push_back(Concat({members[i].text, rest[i + 1]}));
    may_skip = !members[i].required;
  }
  if (may_skip && further != nullptr) {
    ways.push_back(Concat({further, rest[members.size()]}));
  }
  return Choice(std::move(ways));
}

}  // namespace

Result<Grammar> ParseJsonSchema(const Json& schema) { return SchemaReader(schema).Read(); }

Grammar AnyJsonObject() {
  Grammar grammar;
  const int32_t rule = grammar.Declare("(object)");
  JsonRules rules(grammar);
  grammar.Define(rule, rules.Object());
  return grammar;
}

}  // namespace erne::grammar
