// The kernels for AVX-512 with the tiles of AMX for bf16 and int8: Sapphire Rapids and what came after
// it.
#define ERNE_KERNEL_NAMESPACE amx
#define ERNE_VNNI
#define ERNE_BF16_PRODUCTS
#define ERNE_AMX
#include "executor/cpu/avx512.inc"
