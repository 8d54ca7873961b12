// The loops for AVX-512 (F, BW, VL, DQ).
#define ERNE_LOOPS_NAMESPACE avx512
#define ERNE_LOOPS_NAME "avx512"
#include "sampling/vocab_loops.inc"
