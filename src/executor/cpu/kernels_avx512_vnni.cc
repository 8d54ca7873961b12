// The kernels for AVX-512 with products of bytes (VNNI): Cascade Lake, Ice Lake.
#define ERNE_KERNEL_NAMESPACE avx512_vnni
#define ERNE_VNNI
#include "executor/cpu/avx512.inc"
