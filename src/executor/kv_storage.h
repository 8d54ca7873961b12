// How the KV cache keeps what it is given: its size and its rounding, in one place for those who
// plan memory, for executors and for their tests.
#pragma once

#include <cstdint>
#include <span>

#include "kv/kv_dtype.h"
#include "model/model_spec.h"

namespace erne {

// Bytes of one block (kKvBlockSize positions) of one kv head in one layer: K [head_dim] and V
// [head_dim rounded up to 16] of each position, and with kInt8 a float32 scale for each of the two.
int64_t KvHeadBlockBytes(int64_t head_dim, KvDType dtype);

// Bytes of one block in all layers and kv heads of a model.
uint64_t KvBlockBytes(const ModelSpec& spec, KvDType dtype);

// Replaces the k or the v of one position and kv head by what the cache gives back. A NaN stays a
// NaN, so that a broken row shows itself; with kInt8 one NaN or infinity makes all of them NaN.
void RoundLikeKvCache(KvDType dtype, std::span<float> x);

}  // namespace erne
