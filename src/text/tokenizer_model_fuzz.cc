// Hostile tokenizer.model bytes.
#include "text/tokenizer_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  erne::CheckTokenizerFile("tokenizer.model", std::span(data, size));
  return 0;
}
