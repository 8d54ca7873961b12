// The fields of a request, as one table: name, kind, limits, what is done with it, and a line of
// documentation. Checking is driven by the table, so that every field is checked the same way and a
// new one is one line.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace erne {

// The endpoints that take a body.
enum class Endpoint : uint8_t {
  kChat = 1,         // POST /v1/chat/completions
  kCompletions = 2,  // POST /v1/completions
  kTokenize = 4,     // POST /tokenize
  kDetokenize = 8,   // POST /detokenize
};

enum class FieldKind {
  kBoolean,
  kInteger,
  kNumber,
  kString,
  kArray,
  kObject,
  kStringOrArray,
  kStringOrObject,
  kAny,
};

enum class FieldUse {
  kHonoured,     // changes the answer as documented
  kAccepted,     // valid, and without effect on this server
  kUnsupported,  // known, not supported: an error unless null or `neutral`
};

struct RequestField {
  std::string_view name;   // of a member of an object: "stream_options.include_usage"
  unsigned endpoints = 0;  // bits of Endpoint
  FieldKind kind = FieldKind::kAny;
  FieldUse use = FieldUse::kHonoured;
  // The value that an absent field stands for, as JSON; "" when the model or the request decides.
  // For kUnsupported the one value, besides null, that may be written out.
  std::string_view neutral;
  std::string_view doc;  // of kUnsupported: why
  // Numbers only.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is too small

  bool IsFor(Endpoint endpoint) const { return (endpoints & static_cast<unsigned>(endpoint)) != 0; }
};

// The fields of all endpoints, in the order of the documentation. A name has one row for each
// endpoint at most.
std::span<const RequestField> RequestFields();

// Checks the members of `body`, an object, against the table, and the members of members that the
// table describes. A fault is an InvalidArgument that
// names the field (also as param), what it may be and what was found. null counts as absent. Names
// that the endpoint does not know go to `unknown`.
Status CheckFields(const Json& body, Endpoint endpoint, std::vector<std::string>& unknown);

// Parses a body, checks its fields, and leaves out those that the endpoint does not know. Bad JSON
// is an InvalidArgument with the byte offset.
Result<Json> ParseBody(std::string_view body, Endpoint endpoint, std::vector<std::string>& unknown);

// The member `name` of `body`, nullptr when it is absent or null.
const Json* Given(const Json& body, std::string_view name);

// A number that has no fraction counts as an integer, as in other servers: 5.0 is 5.
bool IsWhole(const Json& value);
int64_t WholeValue(const Json& value);
// A token id: a whole number from 0 to 2^31 - 1.
std::optional<int32_t> TokenId(const Json& value);

// `value` as JSON for a message, shortened.
std::string Shown(const Json& value);

}  // namespace erne
