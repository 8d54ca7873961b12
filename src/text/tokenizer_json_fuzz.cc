// Hostile tokenizer.json bytes: whatever loads must encode any text without special tokens, and
// decode any ids.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "base/file_set.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const auto files = erne::MakeEmbeddedFileSet("fuzz", {{"tokenizer.json", bytes}});
  const auto tokenizer = erne::LoadTokenizer(*files);
  if (!tokenizer.ok()) {
    ERNE_CHECK(!tokenizer.status().message().empty());
    return 0;
  }
  // The file's own strings are the texts most likely to merge.
  const std::string text =
      erne::SanitizeUtf8(std::string_view(reinterpret_cast<const char*>(data), size));
  const auto ids = (*tokenizer)->Encode(text, false);
  for (const int32_t id : ids) ERNE_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
  (*tokenizer)->Decode(ids, true);
  (*tokenizer)->Decode((*tokenizer)->Encode(text, true), false);
  return 0;
}
