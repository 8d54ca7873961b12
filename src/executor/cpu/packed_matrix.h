// A weight matrix in the layout of the kernels (kernels.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/memory.h"
#include "model/weights.h"

namespace erne::cpu {

inline int64_t PanelsFor(int64_t rows) { return (rows + kLanes - 1) / kLanes; }

// Movable; `ref` stays valid for as long as the matrix (or what it was moved into) lives. Immutable
// once packed.
class PackedMatrix {
 public:
  PackedMatrix() = default;

  // Packs W [rows, cols] and its bias, reading each panel once. `name` is for errors:
  // InvalidArgument when the weights are absent, have another shape, or a type that no kernel
  // reads; ResourceExhausted without memory. When `like` wants its activations in the same order
  // (GPTQ's act-order), the order is shared, which lets a kernel serve both matrices at once.
  static Result<PackedMatrix> Pack(const std::string& name, const LinearWeights& weights,
                                   int64_t rows, int64_t cols, ThreadPool& pool,
                                   const PackedMatrix* like = nullptr);

  const MatrixRef& ref() const { return ref_; }
  int64_t panels() const { return PanelsFor(ref_.rows); }
  uint64_t bytes() const;

  // Row `row` of a float matrix as float32. out: [cols]
  void CopyRow(int64_t row, float* out) const;

 private:
  Status PackFloat(const std::string& name, const TensorView& matrix, ThreadPool& pool);
  Status PackInt4(const std::string& name, const Int4Matrix& matrix, ThreadPool& pool,
                  const PackedMatrix* like);
  Status AllocatePanels(const std::string& name, int64_t panel_bytes);

  MatrixRef ref_;
  Buffer data_;
  Buffer bias_;
  std::shared_ptr<const std::vector<int32_t>> order_;
};

}  // namespace erne::cpu
