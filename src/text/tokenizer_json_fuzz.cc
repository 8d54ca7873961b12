// Hostile tokenizer.json bytes.
#include "text/tokenizer_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  erne::CheckTokenizerFile("tokenizer.json", std::span(data, size));
  return 0;
}
