// The loops for any CPU: whatever the target's baseline has.
#define ERNE_LOOPS_NAMESPACE portable
#define ERNE_LOOPS_NAME "portable"
#include "sampling/vocab_loops.inc"
