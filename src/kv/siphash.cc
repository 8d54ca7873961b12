#include "kv/siphash.h"

#include <bit>
#include <cstddef>

namespace erne {
namespace {

// Up to 8 bytes as a little-endian word, zeros behind them.
uint64_t LoadWord(std::span<const uint8_t> bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i) word |= uint64_t{bytes[i]} << (8 * i);
  return word;
}

// The four words of state, named as in the paper.
struct State {
  uint64_t v0, v1, v2, v3;

  void Rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  }
  void Absorb(uint64_t word) {
    v3 ^= word;
    Rounds(2);
    v0 ^= word;
  }
  uint64_t Squeeze() {
    Rounds(4);
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

}  // namespace

std::array<uint64_t, 2> SipHash128(const std::array<uint64_t, 2>& key,
                                   std::span<const uint8_t> data) {
  // The paper's constants; 0xee and 0xdd set the longer output apart from the short one.
  State state = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d ^ 0xee,
                 key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
  const uint64_t length = uint64_t{data.size()} << 56;  // its lowest byte is hashed
  for (; data.size() >= 8; data = data.subspan(8)) state.Absorb(LoadWord(data.first(8)));
  state.Absorb(LoadWord(data) | length);
  state.v2 ^= 0xee;
  const uint64_t low = state.Squeeze();
  state.v1 ^= 0xdd;
  return {low, state.Squeeze()};
}

}  // namespace erne
