// Requests from hostile bytes, whole and in pieces: never a crash, never more consumed than given.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "http/request_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t piece = size == 0 ? 1 : 1 + data[0] % 64;
  erne::RequestReader whole({4096, 4096});
  std::string input = text;
  const auto state = whole.Read(input);
  ERNE_CHECK(input.size() <= text.size());
  if (state == erne::RequestReader::State::kDone) {
    ERNE_CHECK(whole.TakeRequest().body.size() <= 4096);
  }
  erne::RequestReader pieces({4096, 4096});
  auto piece_state = erne::RequestReader::State::kNeedMore;
  input.clear();
  for (size_t at = 0; at < size && piece_state == erne::RequestReader::State::kNeedMore;
       at += piece) {
    input += text.substr(at, piece);
    piece_state = pieces.Read(input);
  }
  // How the bytes were cut must not change what is accepted.
  ERNE_CHECK((state == erne::RequestReader::State::kDone) ==
             (piece_state == erne::RequestReader::State::kDone));
  return 0;
}
