// The weights of a model on the device, packed (layout.h).
//
// Matrices that read the same activations are packed as one: q, k and v, and gate with up. Those of
// the experts of a layer lie one after the other. A 4-bit matrix stays in 4 bits when its groups
// are 32 or a multiple of 64 inputs wide and what it is packed with has the same order of inputs
// (in experts: no order of its own); else it becomes f16. Parts of different types become float32.
//
// bf16 matrices are kept as f16, but for down. Both take two bytes and the same time; f16
// activations are eight times finer, and what these matrices read is bounded: normed rows, and
// weighted means of values. Their weights lose nothing that counts: bf16 has 8 bits, and f16 holds
// all of them from 2^-17 on; below, what is lost is 2^-25 at most, and beyond 65504 it saturates.
// What down reads, a product of gate and up, has no bound: down and its activations stay bf16.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "executor/cuda/device.h"
#include "executor/cuda/gemm.h"
#include "executor/executor.h"
#include "model/model.h"

namespace erne::cuda {

struct DeviceLinear {
  MatrixView w;
  int outputs = 0;  // of kGate / kUp: of each part
  // Input c of the packed matrix is activation columns[c]; null: c. [inputs]
  const int32_t* columns = nullptr;
  int groups = 1;  // experts
  int64_t group_bytes = 0;
  int64_t group_bias = 0;  // floats
};

struct DeviceMlp {
  DeviceLinear gate_up;
  DeviceLinear down;
};

struct DeviceMoe {
  DeviceLinear router;  // kF32
  const float* correction_bias = nullptr;
  DeviceMlp experts;
  std::optional<DeviceMlp> shared;
};

struct DeviceLayer {
  const float* input_norm = nullptr;
  const float* post_norm = nullptr;
  const float* q_norm = nullptr;  // null without qk-norm
  const float* k_norm = nullptr;
  DeviceLinear qkv;
  DeviceLinear o;
  std::optional<DeviceMlp> dense;
  std::optional<DeviceMoe> moe;
};

// Movable. Owns the memory that its layers point to.
struct DeviceModel {
  ModelSpec spec;
  std::vector<DeviceLayer> layers;
  DeviceLinear embedding;
  DeviceLinear head;  // the embedding when tied
  const float* final_norm = nullptr;
  std::string activation_type;  // "bf16", or several: "f16, bf16"
  Memory memory;

  bool permutes() const;  // whether some o or down has `columns`
};

// InvalidArgument when a matrix is misshapen or a width no multiple of 8; ResourceExhausted when
// the device has too little memory.
Result<DeviceModel> UploadModel(const Model& model, const LoadProgress& progress);

// Bytes of the device that UploadModel would take, and the types of activations; needs no device.
struct DeviceModelSize {
  uint64_t bytes = 0;
  std::string activation_type;
};
Result<DeviceModelSize> MeasureDeviceModel(const Model& model);

}  // namespace erne::cuda
