// What holds for any bytes in a tokenizer file; for the fuzzers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "base/file_set.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace erne {

// Whatever loads as the file `name` must encode any text and decode any ids.
inline void CheckTokenizerFile(const std::string& name, std::span<const uint8_t> data) {
  const auto files = MakeEmbeddedFileSet("fuzz", {{name, std::as_bytes(data)}});
  const auto tokenizer = LoadTokenizer(*files);
  if (!tokenizer.ok()) {
    ERNE_CHECK(!tokenizer.status().message().empty());
    return;
  }
  // The file's own strings are the texts most likely to merge.
  const std::string text =
      SanitizeUtf8(std::string_view(reinterpret_cast<const char*>(data.data()), data.size()));
  const auto ids = (*tokenizer)->Encode(text, false);
  for (const int32_t id : ids) ERNE_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
  (*tokenizer)->Decode(ids, true);
  (*tokenizer)->Decode((*tokenizer)->Encode(text, true), false);
}

}  // namespace erne
