// Hostile JSON: what parses must read back from its own text as the same value.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const erne::Result<erne::Json> json = erne::Json::Parse(text);
  if (!json.ok()) {
    ERNE_CHECK(json.status().message().find("byte ") != std::string::npos);
    return 0;
  }
  const std::string dumped = json->Dump();
  ERNE_CHECK(erne::FindInvalidUtf8(dumped) == std::string_view::npos) << dumped;
  const erne::Result<erne::Json> again = erne::Json::Parse(dumped);
  ERNE_CHECK(again.ok()) << again.status().message();
  ERNE_CHECK(*again == *json) << dumped;
  ERNE_CHECK(again->Dump() == dumped);
  return 0;
}
