// A weight matrix in the layout of the kernels (kernels.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "executor/cpu/group_packing.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/memory.h"
#include "model/weights.h"

namespace erne::cpu {

inline int64_t PanelsFor(int64_t rows) { return (rows + kLanes - 1) / kLanes; }

// Inputs that share a scale where floats are rounded to int8 or int4 here: 8.25 and 4.6 bits a
// weight.
inline constexpr int64_t kInt8Group = 128;
inline constexpr int64_t kInt4Group = 64;

// What float weights of `cols` columns are rounded to when `wanted`, kInt8 or kInt4, is asked for:
// int8 where the columns do not divide into even groups for int4.
struct RoundedForm {
  WeightType type;
  int64_t group;
};
RoundedForm RoundedFormFor(WeightType wanted, int64_t cols);

// How a matrix is packed.
struct PackOptions {
  // The type of activations for weights of each type; kernels have kF32 for all, kBF16 for kBF16,
  // kInt8 for kInt8 and kInt4.
  ActivationType for_bf16 = ActivationType::kF32;
  ActivationType for_integers = ActivationType::kF32;
  // kInt8 or kInt4: float weights are rounded as RoundedFormFor says.
  std::optional<WeightType> quantize;
  // When it wants its activations in the same order (GPTQ's act-order), the order is shared, which
  // lets a kernel serve both matrices at once.
  const class PackedMatrix* like = nullptr;
  // Called now and then: the source's bytes up to here will not be read again.
  std::function<void()> packed_a_part;
};

// Movable; `ref` stays valid for as long as the matrix (or what it was moved into) and the arena
// live. Immutable once packed.
class PackedMatrix {
 public:
  PackedMatrix() = default;

  // Packs W [rows, cols] and its bias into `arena`, reading each panel once. `name` is for errors:
  // InvalidArgument when the weights are absent, have another shape, or a type that no kernel
  // reads; ResourceExhausted without memory.
  static Result<PackedMatrix> Pack(const std::string& name, const LinearWeights& weights,
                                   int64_t rows, int64_t cols, Arena& arena, ThreadPool& pool,
                                   const PackOptions& options = {});

  const MatrixRef& ref() const { return ref_; }
  int64_t panels() const { return PanelsFor(ref_.rows); }
  uint64_t bytes() const;

  // Row `row` as float32, by packed input. out: [cols]
  void CopyRow(int64_t row, float* out) const;

 private:
  // The name for errors, the memory and the threads that a matrix is packed with.
  struct Means;

  Status PackFloat(const Means& means, const TensorView& matrix, const PackOptions& options);
  Status PackRounded(const Means& means, const TensorView& matrix, const PackOptions& options);
  Status PackInt8(const Means& means, const Int8Matrix& matrix);
  Status PackInt4(const Means& means, const Int4Matrix& matrix, const PackedMatrix* like);
  Status PackBias(const Means& means, const TensorView& bias);
  // Sets the sizes of groups of `group` inputs and takes the memory.
  Status SetGroups(const Means& means, WeightType type, int64_t group);
  Status AllocatePanels(const Means& means, int64_t panel_bytes);
  PanelTile TileAt(int64_t tile) const;

  MatrixRef ref_;
  unsigned char* panels_ = nullptr;
  std::shared_ptr<const std::vector<int32_t>> order_;
};

}  // namespace erne::cpu
