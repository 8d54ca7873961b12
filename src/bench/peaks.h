// The loops that measure what a CPU can do at most: one table per instruction set, each in a source
// of its own that is compiled for it, picked at run time (roof.cc).
//
// As kernels.h of the CPU executor: this header defines no function, and those sources include
// nothing of the standard library but <cstdint> and <cstddef>, so that no inline function compiled
// for AVX can replace the one that the rest of the program calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace erne::bench {

// Multiply-adds that do not wait for each other and touch no memory.
struct ArithmeticLoop {
  const char* instruction = nullptr;  // "avx512 vpdpbusd"; null: this set has none of its own
  int64_t operations = 0;             // of one round; a multiply-add is two
  // Returns a number that depends on all of them, so that none is left out.
  float (*run)(int64_t rounds) = nullptr;
};

struct Peaks {
  const char* name = "";
  // Reads `bytes` (a multiple of 4096) from an address aligned to 64.
  uint64_t (*read)(const void* data, int64_t bytes) = nullptr;
  ArithmeticLoop f32;
  ArithmeticLoop bf16;  // pairs of bfloat16, added to a float32
  ArithmeticLoop int8;  // unsigned by signed bytes, added to 32 bits
};

// They exist where the target architecture has the instruction set.
namespace portable {
extern const Peaks kPeaks;
}
namespace avx2 {
extern const Peaks kPeaks;
}
namespace avx512 {
extern const Peaks kPeaks;
}
namespace avx_vnni {
extern const ArithmeticLoop kInt8;
}
namespace avx512_vnni {
extern const ArithmeticLoop kInt8;
}
namespace avx512_bf16 {
extern const ArithmeticLoop kBf16;
}
namespace amx {
extern const ArithmeticLoop kBf16;
extern const ArithmeticLoop kInt8;
}  // namespace amx

}  // namespace erne::bench
