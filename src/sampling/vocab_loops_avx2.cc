// The loops for AVX2.
#define ERNE_LOOPS_NAMESPACE avx2
#define ERNE_LOOPS_NAME "avx2"
#include "sampling/vocab_loops.inc"
