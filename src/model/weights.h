// The weights of a model by their place in the decoder, whatever the checkpoint calls them.
//
// These are views: float matrices point into the mapped checkpoint, 8-bit and 4-bit ones are in canonical form (formats/int8.h, int4.h). An
// executor packs them into the layout that its kernels want.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/int4.h"
#include "formats/int8.h"
#include "tensor/tensor.h"

namespace erne {

// A linear map y = W x + b. W is [rows = outputs, cols = inputs].
struct LinearWeights {
  std::variant<std::monostate, TensorView, Int8Matrix, Int4Matrix> matrix;  // monostate: absent
  std::optional<TensorView> bias;                                           // [rows]
  // Where LoadOptions::unpack was false: the elements that `matrix`, an Int4Matrix, only has the sizes
  // of. Reads the checkpoint; may be called at any time while that lives, by any thread.
  std::function<Result<Int4Matrix>()> unpack;

  bool present() const { return matrix.index() != 0; }
  int64_t rows() const;
  int64_t cols() const;
};

// down(silu(gate(x)) * up(x))
struct MlpWeights {
  LinearWeights gate;  // [intermediate, hidden]
  LinearWeights up;    // [intermediate, hidden]
  LinearWeights down;  // [hidden, intermediate]
};

struct MoeWeights {
  TensorView router;                          // [experts, hidden]
  std::optional<TensorView> correction_bias;  // [experts] elements, any shape
  std::vector<MlpWeights> experts;
  std::optional<MlpWeights> shared;
};

struct LayerWeights {
  TensorView input_norm;  // [hidden]
  LinearWeights q, k, v, o;
  std::optional<TensorView> q_norm, k_norm;  // [head_dim]
  TensorView post_norm;                      // [hidden]
  std::variant<MlpWeights, MoeWeights> ffn;
};

struct ModelWeights {
  std::shared_ptr<const Checkpoint> checkpoint;  // keeps the mappings alive
  TensorView embedding;                          // [vocab, hidden]
  std::vector<LayerWeights> layers;
  TensorView final_norm;  // [hidden]
  LinearWeights head;     // absent when tied: use `embedding`
};

}  // namespace erne
