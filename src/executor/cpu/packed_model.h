// A model in the layout of the kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "executor/cpu/memory.h"
#include "executor/cpu/packed_matrix.h"
#include "executor/executor.h"
#include "model/model.h"

namespace erne::cpu {

struct PackedMlp {
  PackedMatrix gate, up, down;
};

struct PackedMoe {
  PackedMatrix router;
  std::vector<float> correction_bias;  // empty: the rule has none
  std::vector<PackedMlp> experts;
  std::optional<PackedMlp> shared;
};

struct PackedLayer {
  std::vector<float> input_norm, post_norm;  // [hidden]
  std::vector<float> q_norm, k_norm;         // [head_dim], or empty
  PackedMatrix q, k, v, o;
  std::optional<PackedMlp> dense;
  std::optional<PackedMoe> moe;
};

// Immutable once packed.
struct PackedModel {
  ModelSpec spec;
  Arena memory;  // of all matrices
  std::vector<PackedLayer> layers;
  std::vector<float> final_norm;
  PackedMatrix head;
  // The embedding of a model whose head is not tied, as it is stored; a tied one is read from
  // `head`. Nothing is read from the checkpoint once the model is packed.
  std::optional<TensorView> embedding;  // bytes in embedding_data
  Buffer embedding_data;

  uint64_t bytes = 0;
  int64_t max_row_bytes = 0;      // of a row of activations as a matrix reads it (FormOf)
  int64_t max_permuted_cols = 0;  // of a matrix that permutes its activations; 0: there is none

  // Row `token` of the embedding. out: [hidden]
  void Embed(int32_t token, float* out) const;
};

// The types that PackModel gives matrices.
struct PackTypes {
  PackOptions layers;
  PackOptions head;
  bool bf16_products = false;  // of the kernels that will read the matrices
};

// Packs every matrix of the model; routers keep their types and float activations. InvalidArgument
// names what does not fit the spec.
Result<PackedModel> PackModel(std::shared_ptr<const Model> model, ThreadPool& pool,
                              const PackTypes& types, const LoadProgress& progress);

}  // namespace erne::cpu
