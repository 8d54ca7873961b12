#include "grammar/string_formats.h"

#include <array>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace erne::grammar {
namespace {

// RFC 3339, section 5.6.
#define ERNE_DATE                                             \
  "([1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])" \
  "|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8])))"
#define ERNE_TIME                                             \
  "(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?" \
  "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))"
#define ERNE_LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define ERNE_HOST "(" ERNE_LABEL "(\\." ERNE_LABEL "){0,4})"
#define ERNE_OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kFormats = {{
    {"date", ERNE_DATE},
    {"time", ERNE_TIME},
    {"date-time", ERNE_DATE "T" ERNE_TIME},
    {"duration", "P([0-9]{1,4}(Y|M|W|D)|[0-9]{1,4}DT[0-9]{1,2}H|T[0-9]{1,4}(H|M|S))"},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"email", "[A-Za-z0-9_+-]{1,30}(\\.[A-Za-z0-9_+-]{1,30})?@" ERNE_HOST "\\.[A-Za-z]{2,12}"},
    {"hostname", ERNE_HOST},
    {"ipv4", ERNE_OCTET "(\\." ERNE_OCTET "){3}"},
    {"ipv6", "[0-9A-Fa-f]{1,4}(:[0-9A-Fa-f]{1,4}){7}"},
    {"uri", "[a-z][a-z0-9+.-]{0,15}://" ERNE_HOST
            "(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~!$&'()*+,;=:@-]{0,64}){0,8}"
            "(\\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]{0,64})?(#[A-Za-z0-9._~-]{0,32})?"},
}};

}  // namespace

std::string_view PatternOfFormat(std::string_view format) {
  for (const auto& [name, pattern] : kFormats) {
    if (name == format) return pattern;
  }
  return {};
}

std::string KnownFormats() {
  std::vector<std::string_view> names;
  for (const auto& [name, pattern] : kFormats) names.push_back(name);
  return Join(names, ", ");
}

}  // namespace erne::grammar
