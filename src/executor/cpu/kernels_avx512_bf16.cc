// The kernels for AVX-512 with products of bytes (VNNI) and of bf16 pairs: Zen 4, Sapphire Rapids
// and what came after them.
#define ERNE_KERNEL_NAMESPACE avx512_bf16
#define ERNE_VNNI
#define ERNE_BF16_PRODUCTS
#include "executor/cpu/avx512.inc"
