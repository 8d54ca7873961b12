// The kernels for AVX-512 as Skylake servers have it.
#define ERNE_KERNEL_NAMESPACE avx512
#include "executor/cpu/avx512.inc"
