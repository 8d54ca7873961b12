// SipHash-2-4 with 128 bits of output (Aumasson & Bernstein, "SipHash: a fast short-input PRF",
// 2012; the longer output is that of their reference code): a hash under a secret key. Without the
// key nobody can predict a hash or find two inputs that have the same one.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace erne {

// `key`: the 16 bytes of the paper as two little-endian words; so is the result. Thread-safe.
std::array<uint64_t, 2> SipHash128(const std::array<uint64_t, 2>& key,
                                   std::span<const uint8_t> data);

}  // namespace erne
