// Two passes: the first decides the form of every matrix and reserves its place, the second copies
// rows through two pinned buffers to the device, where a kernel spreads them.
#include "executor/cuda/device_model.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "base/strings.h"
#include "executor/cuda/pack_kernels.h"

namespace erne::cuda {
namespace {

// Of a pinned buffer: large enough that copies run at full speed.
constexpr uint64_t kChunkBytes = uint64_t{32} << 20;

// Rows of one source matrix in a packed one.
struct Part {
  const LinearWeights* weights = nullptr;
  RowOrder order = RowOrder::kPlain;
  int64_t first_packed_row = 0;
};

struct PendingMatrix {
  std::string name;
  DeviceLinear* target = nullptr;
  std::vector<std::vector<Part>> groups;  // of each expert, or one
  int head_dim = 0;
  uint64_t data = 0;  // places in the arena
  uint64_t bias = 0;
  bool has_bias = false;
  uint64_t columns = 0;
  const std::vector<int32_t>* order = nullptr;  // null: in order
};

struct PendingVector {
  std::vector<float> values;
  const float** target = nullptr;
  uint64_t place = 0;
};

WeightKind KindOf(DType dtype) {
  if (dtype == DType::kBF16) return WeightKind::kBF16;
  return dtype == DType::kF16 ? WeightKind::kF16 : WeightKind::kF32;
}

// Whether int4 kernels can read it as it is.
bool FitsInt4(const Int4Matrix& matrix) { return matrix.group == 32 || matrix.group % 64 == 0; }

// The first pass.
class Layout {
 public:
  explicit Layout(const Model& model) : weights_(model.weights) { out_.spec = model.spec; }

  Status Run() {
    const ModelSpec& spec = out_.spec;
    ERNE_RETURN_IF_ERROR(CheckWidths());
    AddVector(ToFloats(weights_.final_norm), &out_.final_norm);
    embedding_.matrix = weights_.embedding;
    ERNE_RETURN_IF_ERROR(Add("the embedding", {{{&embedding_, RowOrder::kPlain, 0}}},
                             spec.vocab_size, spec.hidden, out_.embedding));
    if (weights_.head.present()) {
      ERNE_RETURN_IF_ERROR(Add("the head", {{{&weights_.head, RowOrder::kPlain, 0}}},
                               spec.vocab_size, spec.hidden, out_.head));
    }
    routers_.resize(weights_.layers.size());
    out_.layers.resize(weights_.layers.size());
    for (size_t i = 0; i < out_.layers.size(); ++i) {
      ERNE_RETURN_IF_ERROR(AddLayer(i).WithContext(StrCat("layer ", i)));
    }
    std::vector<std::string> names;
    for (const ActivationType type : types_) {
      names.emplace_back(type == ActivationType::kF32    ? "f32"
                         : type == ActivationType::kBF16 ? "bf16"
                                                         : "f16");
    }
    out_.activation_type = Join(names, ", ");
    return {};
  }

  DeviceModel& out() { return out_; }
  Arena& arena() { return arena_; }
  std::vector<PendingMatrix>& matrices() { return matrices_; }
  std::vector<PendingVector>& vectors() { return vectors_; }

 private:
  Status CheckWidths() const {
    const ModelSpec& spec = out_.spec;
    const AttentionSpec& a = spec.attention;
    if (a.head_dim % 16 != 0 || a.head_dim <= 0 || a.head_dim > kMaxHeadDim || a.heads <= 0 ||
        a.kv_heads <= 0 || a.heads % a.kv_heads != 0) {
      return InvalidArgument(StrCat(
          "the CUDA executor cannot run ", a.heads, " heads of ", a.head_dim, " and ", a.kv_heads,
          " kv heads: a head must be a multiple of 16 wide, up to ", kMaxHeadDim));
    }
    for (const int64_t width : {spec.hidden, spec.dense_intermediate, spec.moe.intermediate,
                                spec.moe.shared_intermediate}) {
      if (width % 8 != 0) {
        return InvalidArgument(
            StrCat("the CUDA executor needs widths that are multiples of 8, not ", width));
      }
    }
    return {};
  }

  void AddVector(std::vector<float> values, const float** target) {
    const uint64_t place = arena_.Reserve(values.size() * sizeof(float));
    vectors_.push_back({std::move(values), target, place});
  }

  Status AddLayer(size_t index) {
    const ModelSpec& spec = out_.spec;
    const AttentionSpec& a = spec.attention;
    const LayerWeights& from = weights_.layers[index];
    DeviceLayer& to = out_.layers[index];
    AddVector(ToFloats(from.input_norm), &to.input_norm);
    AddVector(ToFloats(from.post_norm), &to.post_norm);
    RowOrder order = a.rope.style == RopeStyle::kInterleaved ? RowOrder::kInterleavedPairs
                                                             : RowOrder::kHalfPairs;
    if (a.qk_norm) {  // norms come between the product and the rotation
      AddVector(ToFloats(*from.q_norm), &to.q_norm);
      AddVector(ToFloats(*from.k_norm), &to.k_norm);
      order = RowOrder::kPlain;
    }
    ERNE_RETURN_IF_ERROR(Add("q, k and v",
                             {{{&from.q, order, 0},
                               {&from.k, order, a.q_width()},
                               {&from.v, order, a.q_width() + a.kv_width()}}},
                             a.q_width() + 2 * a.kv_width(), spec.hidden, to.qkv));
    ERNE_RETURN_IF_ERROR(
        Add("o", {{{&from.o, RowOrder::kPlain, 0}}}, spec.hidden, a.q_width(), to.o));
    if (const auto* mlp = std::get_if<MlpWeights>(&from.ffn)) {
      return AddMlp({mlp}, spec.dense_intermediate, to.dense.emplace());
    }
    return AddMoe(index, std::get<MoeWeights>(from.ffn), to.moe.emplace());
  }

  Status AddMlp(const std::vector<const MlpWeights*>& experts, int64_t width, DeviceMlp& out) {
    std::vector<std::vector<Part>> gate_up;
    std::vector<std::vector<Part>> down;
    for (const MlpWeights* mlp : experts) {
      gate_up.push_back({{&mlp->gate, RowOrder::kGate, 0}, {&mlp->up, RowOrder::kUp, 0}});
      down.push_back({{&mlp->down, RowOrder::kPlain, 0}});
    }
    ERNE_RETURN_IF_ERROR(
        Add("gate and up", std::move(gate_up), 2 * width, out_.spec.hidden, out.gate_up));
    wide_range_ = true;  // products of gate and up have no bound
    const Status added = Add("down", std::move(down), out_.spec.hidden, width, out.down);
    wide_range_ = false;
    return added;
  }

  Status AddMoe(size_t index, const MoeWeights& from, DeviceMoe& out) {
    const MoeSpec& moe = out_.spec.moe;
    routers_[index].matrix = from.router;
    force_f32_ = true;
    const Status router = Add("the router", {{{&routers_[index], RowOrder::kPlain, 0}}},
                              moe.routing.experts, out_.spec.hidden, out.router);
    force_f32_ = false;
    ERNE_RETURN_IF_ERROR(router);
    if (moe.routing.correction_bias) {
      AddVector(ToFloats(*from.correction_bias), &out.correction_bias);
    }
    std::vector<const MlpWeights*> experts;
    for (const MlpWeights& expert : from.experts) experts.push_back(&expert);
    plain_order_ = true;  // experts of one layer read the same rows
    ERNE_RETURN_IF_ERROR(AddMlp(experts, moe.intermediate, out.experts));
    if (from.shared) {
      ERNE_RETURN_IF_ERROR(AddMlp({&*from.shared}, moe.shared_intermediate, out.shared.emplace()));
    }
    plain_order_ = false;
    return {};
  }

  // The kind that all parts can be read as, and with int4 the common order of inputs.
  WeightKind CommonKind(const std::vector<std::vector<Part>>& groups,
                        const std::vector<int32_t>** order) const {
    if (force_f32_) return WeightKind::kF32;
    std::set<WeightKind> kinds;
    bool as_it_is = true;
    const Int4Matrix* first = nullptr;
    for (const std::vector<Part>& parts : groups) {
      for (const Part& part : parts) {
        const auto* int4 = std::get_if<Int4Matrix>(&part.weights->matrix);
        if (int4 == nullptr) {
          kinds.insert(KindOf(std::get<TensorView>(part.weights->matrix).dtype));
          continue;
        }
        kinds.insert(WeightKind::kInt4);
        if (first == nullptr) first = int4;
        as_it_is = as_it_is && FitsInt4(*int4) && (int4->group == 32) == (first->group == 32) &&
                   int4->input_order == first->input_order;
      }
    }
    if (kinds.size() > 1) return WeightKind::kF32;
    if (*kinds.begin() == WeightKind::kBF16 && !wide_range_) return WeightKind::kF16;
    if (*kinds.begin() != WeightKind::kInt4) return *kinds.begin();
    if (!as_it_is || (plain_order_ && !first->input_order.empty())) return WeightKind::kF16;
    if (!first->input_order.empty()) *order = &first->input_order;
    return WeightKind::kInt4;
  }

  Status CheckParts(const std::string& name, const std::vector<std::vector<Part>>& groups,
                    int64_t rows, int64_t cols) const {
    for (const std::vector<Part>& parts : groups) {
      int64_t sum = 0;
      for (const Part& part : parts) {
        const LinearWeights& weights = *part.weights;
        if (!weights.present()) return InvalidArgument(StrCat(name, ": the weights are absent"));
        if (weights.cols() != cols) {
          return InvalidArgument(StrCat(name, ": ", weights.cols(), " inputs, not ", cols));
        }
        if (weights.bias && weights.bias->elements() != weights.rows()) {
          return InvalidArgument(StrCat(name, ": the bias has ", weights.bias->elements(),
                                        " elements, not ", weights.rows()));
        }
        sum += weights.rows();
      }
      if (sum != rows) return InvalidArgument(StrCat(name, ": ", sum, " outputs, not ", rows));
    }
    if (rows > std::numeric_limits<int32_t>::max() - kTileRows ||
        cols > std::numeric_limits<int32_t>::max() - kActivationPad) {
      return InvalidArgument(StrCat(name, ": [", rows, ", ", cols, "] is too large"));
    }
    return {};
  }

  // rows: of one group, all parts together.
  Status Add(const std::string& name, std::vector<std::vector<Part>> groups, int64_t rows,
             int64_t cols, DeviceLinear& out) {
    ERNE_RETURN_IF_ERROR(CheckParts(name, groups, rows, cols));
    PendingMatrix matrix;
    matrix.name = name;
    matrix.target = &out;
    matrix.head_dim = static_cast<int>(out_.spec.attention.head_dim);
    MatrixView& w = out.w;
    w.kind = CommonKind(groups, &matrix.order);
    if (w.kind == WeightKind::kInt4) {
      w.sets = std::get<Int4Matrix>(groups[0][0].weights->matrix).group == 32 ? 2 : 1;
    }
    w.tiles = static_cast<int>((rows + kTileRows - 1) / kTileRows);
    w.inputs = static_cast<int>(cols);
    w.units = static_cast<int>(RoundUpTo(cols, UnitInputs(w.kind)) / UnitInputs(w.kind));
    const bool halves = groups[0].size() == 2;  // gate and up
    out.outputs = static_cast<int>(halves ? rows / 2 : rows);
    out.groups = static_cast<int>(groups.size());
    out.group_bytes = int64_t{w.tiles} * w.units * UnitBytes(w.kind, w.sets);
    matrix.data = arena_.Reserve(static_cast<uint64_t>(out.group_bytes) * groups.size());
    for (const std::vector<Part>& parts : groups) {
      for (const Part& part : parts) matrix.has_bias |= part.weights->bias.has_value();
    }
    if (matrix.has_bias) {
      out.group_bias = int64_t{w.tiles} * kTileRows;
      matrix.bias =
          arena_.Reserve(static_cast<uint64_t>(out.group_bias) * groups.size() * sizeof(float));
    }
    if (matrix.order != nullptr) {
      matrix.columns = arena_.Reserve(matrix.order->size() * sizeof(int32_t));
    }
    if (&out != &out_.embedding && !force_f32_) types_.insert(ActivationOf(w.kind));
    if (&out == &out_.embedding && !weights_.head.present()) types_.insert(ActivationOf(w.kind));
    matrix.groups = std::move(groups);
    matrices_.push_back(std::move(matrix));
    return {};
  }

  const ModelWeights& weights_;
  DeviceModel out_;
  Arena arena_;
  std::vector<PendingMatrix> matrices_;
  std::vector<PendingVector> vectors_;
  std::set<ActivationType> types_;
  LinearWeights embedding_;
  std::vector<LinearWeights> routers_;  // [layers]
  bool force_f32_ = false;
  bool plain_order_ = false;
  bool wide_range_ = false;
};

// The second pass.
class Uploader {
 public:
  Uploader(Layout& layout, const LoadProgress& progress) : layout_(layout), progress_(progress) {}
  ~Uploader() {
    if (stream_ != nullptr) static_cast<void>(cudaStreamSynchronize(stream_));
    for (Buffer& buffer : buffers_) {
      if (buffer.free != nullptr) static_cast<void>(cudaEventDestroy(buffer.free));
    }
    if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
  }

  Status Run(Memory& memory) {
    ERNE_ASSIGN_OR_RETURN(
        memory, Memory::Allocate(Memory::Place::kDevice, layout_.arena().bytes(), "the weights"));
    base_ = memory.data();
    ERNE_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), kWhat);
    for (Buffer& buffer : buffers_) {
      ERNE_ASSIGN_OR_RETURN(buffer.host,
                            Memory::Allocate(Memory::Place::kPinned, kChunkBytes, kWhat));
      ERNE_ASSIGN_OR_RETURN(buffer.device,
                            Memory::Allocate(Memory::Place::kDevice, kChunkBytes, kWhat));
      ERNE_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&buffer.free, cudaEventDisableTiming),
                                kWhat);
    }
    ERNE_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize(), kWhat);  // what zeroed the memory
    for (const PendingVector& vector : layout_.vectors()) {
      ERNE_RETURN_IF_ERROR(CopyNow(vector.place, vector.values.data(), vector.values.size() * 4));
      *vector.target = reinterpret_cast<const float*>(base_ + vector.place);
    }
    for (const PendingMatrix& matrix : layout_.matrices()) ERNE_RETURN_IF_ERROR(Upload(matrix));
    ERNE_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_), kWhat);
    return {};
  }

 private:
  static constexpr const char* kWhat = "copying the weights to the GPU";

  struct Buffer {
    Memory host;
    Memory device;
    cudaEvent_t free = nullptr;  // the device has read what was in it
  };

  Status CopyNow(uint64_t place, const void* data, size_t bytes) {
    ERNE_RETURN_IF_CUDA_ERROR(cudaMemcpy(base_ + place, data, bytes, cudaMemcpyHostToDevice),
                              kWhat);
    return {};
  }

  Status Upload(const PendingMatrix& matrix) {
    DeviceLinear& out = *matrix.target;
    out.w.data = reinterpret_cast<const uint8_t*>(base_ + matrix.data);
    if (matrix.order != nullptr) {
      ERNE_RETURN_IF_ERROR(CopyNow(matrix.columns, matrix.order->data(), matrix.order->size() * 4));
      out.columns = reinterpret_cast<const int32_t*>(base_ + matrix.columns);
    }
    if (matrix.has_bias) {
      ERNE_RETURN_IF_ERROR(UploadBias(matrix));
      out.w.bias = reinterpret_cast<const float*>(base_ + matrix.bias);
    }
    for (size_t g = 0; g < matrix.groups.size(); ++g) {
      for (const Part& part : matrix.groups[g]) {
        PackTarget target;
        target.kind = out.w.kind;
        target.sets = out.w.sets;
        target.units = out.w.units;
        target.data = reinterpret_cast<uint8_t*>(base_ + matrix.data) +
                      static_cast<int64_t>(g) * out.group_bytes;
        target.order = part.order;
        target.head_dim = matrix.head_dim;
        target.first_packed_row = part.first_packed_row;
        ERNE_RETURN_IF_ERROR(UploadPart(*part.weights, target).WithContext(matrix.name));
      }
      done_ += static_cast<uint64_t>(out.group_bytes);
      if (progress_) {
        progress_(static_cast<double>(done_) / static_cast<double>(layout_.arena().bytes()));
      }
    }
    return {};
  }

  Status UploadBias(const PendingMatrix& matrix) {
    const int64_t width = matrix.target->group_bias;
    std::vector<float> all(static_cast<size_t>(width) * matrix.groups.size());
    for (size_t g = 0; g < matrix.groups.size(); ++g) {
      for (const Part& part : matrix.groups[g]) {
        if (!part.weights->bias) continue;
        const std::vector<float> bias = ToFloats(*part.weights->bias);
        for (size_t r = 0; r < bias.size(); ++r) {
          const int64_t packed = part.first_packed_row +
                                 PackedRow(part.order, static_cast<int64_t>(r), matrix.head_dim);
          all[static_cast<size_t>(static_cast<int64_t>(g) * width + packed)] = bias[r];
        }
      }
    }
    return CopyNow(matrix.bias, all.data(), all.size() * sizeof(float));
  }

  // Bytes of a row of the source as it is copied. int4: q, scales, zeros.
  static int64_t RowBytes(const LinearWeights& weights, WeightKind kind) {
    const int64_t cols = weights.cols();
    if (kind == WeightKind::kF32) return cols * 4;
    if (kind != WeightKind::kInt4) return cols * 2;
    const int64_t groups = cols / std::get<Int4Matrix>(weights.matrix).group;
    return cols / 2 + groups * 5;
  }

  Status UploadPart(const LinearWeights& weights, PackTarget target) {
    const int64_t rows = weights.rows();
    constexpr int64_t kAlignment = 16;  // between the three arrays of int4
    const int64_t most =
        (static_cast<int64_t>(kChunkBytes) - 3 * kAlignment) / RowBytes(weights, target.kind);
    if (most < 1) return InvalidArgument(StrCat(weights.cols(), " inputs are too many"));
    for (int64_t begin = 0; begin < rows; begin += most) {
      const int64_t count = std::min(most, rows - begin);
      target.first_row = begin;
      Buffer& buffer = buffers_[next_];
      next_ = 1 - next_;
      ERNE_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(buffer.free), kWhat);
      cudaError_t error = cudaSuccess;
      if (target.kind == WeightKind::kInt4) {
        error = SendInt4(std::get<Int4Matrix>(weights.matrix), target, begin, count, buffer);
      } else {
        const auto* view = std::get_if<TensorView>(&weights.matrix);
        target.from_bf16 =
            view != nullptr && view->dtype == DType::kBF16 && target.kind == WeightKind::kF16;
        FillFloats(weights, target, begin, count, buffer.host.data());
        error = Send(buffer, count * RowBytes(weights, target.kind));
        if (error == cudaSuccess) {
          error = PackFloatRows(stream_, target, buffer.device.data(), count, weights.cols());
        }
      }
      ERNE_RETURN_IF_CUDA_ERROR(error, kWhat);
      ERNE_RETURN_IF_CUDA_ERROR(cudaEventRecord(buffer.free, stream_), kWhat);
    }
    return {};
  }

  cudaError_t Send(const Buffer& buffer, int64_t bytes) {
    return cudaMemcpyAsync(buffer.device.data(), buffer.host.data(), static_cast<size_t>(bytes),
                           cudaMemcpyHostToDevice, stream_);
  }

  cudaError_t SendInt4(const Int4Matrix& matrix, const PackTarget& target, int64_t begin,
                       int64_t count, const Buffer& buffer) {
    const int64_t groups = matrix.cols / matrix.group;
    const int64_t q_bytes = count * (matrix.cols / 2);
    const int64_t scales = RoundUpTo(q_bytes, 16);
    const int64_t zeros = scales + count * groups * 4;
    std::byte* host = buffer.host.data();
    std::memcpy(host, matrix.q.data() + begin * (matrix.cols / 2), static_cast<size_t>(q_bytes));
    std::memcpy(host + scales, matrix.scales.data() + begin * groups,
                static_cast<size_t>(count * groups) * 4);
    std::memcpy(host + zeros, matrix.zeros.data() + begin * groups,
                static_cast<size_t>(count * groups));
    const cudaError_t error = Send(buffer, zeros + count * groups);
    if (error != cudaSuccess) return error;
    const std::byte* device = buffer.device.data();
    return PackInt4Rows(stream_, target, reinterpret_cast<const uint8_t*>(device),
                        reinterpret_cast<const float*>(device + scales),
                        reinterpret_cast<const uint8_t*>(device + zeros), count, matrix.cols,
                        matrix.group);
  }

  // Rows [begin, begin + count) as the target's kind, or as they are where the device converts.
  void FillFloats(const LinearWeights& weights, const PackTarget& target, int64_t begin,
                  int64_t count, std::byte* out) {
    const WeightKind kind = target.kind;
    const int64_t cols = weights.cols();
    const auto* view = std::get_if<TensorView>(&weights.matrix);
    if (view != nullptr && (KindOf(view->dtype) == kind || target.from_bf16)) {
      const int64_t row_bytes = RowBytes(weights, kind);
      std::memcpy(out, view->data + begin * row_bytes, static_cast<size_t>(count * row_bytes));
      return;
    }
    row_.resize(static_cast<size_t>(cols));
    for (int64_t r = 0; r < count; ++r) {
      if (view != nullptr) {
        CopyToFloat(*view, (begin + r) * cols, row_);
      } else {
        DequantizeRow(std::get<Int4Matrix>(weights.matrix), begin + r, row_);
      }
      for (int64_t c = 0; c < cols; ++c) {
        const float value = row_[static_cast<size_t>(c)];
        if (kind == WeightKind::kF32) {
          std::memcpy(out + (r * cols + c) * 4, &value, 4);
        } else {  // int4 as f16
          const uint16_t bits = FloatToF16(value);
          std::memcpy(out + (r * cols + c) * 2, &bits, 2);
        }
      }
    }
  }

  Layout& layout_;
  const LoadProgress& progress_;
  std::byte* base_ = nullptr;
  cudaStream_t stream_ = nullptr;
  Buffer buffers_[2];
  int next_ = 0;
  uint64_t done_ = 0;
  std::vector<float> row_;
};

}  // namespace

bool DeviceModel::permutes() const {
  return std::any_of(layers.begin(), layers.end(), [](const DeviceLayer& layer) {
    return layer.o.columns != nullptr || (layer.dense && layer.dense->down.columns != nullptr);
  });
}

Result<DeviceModel> UploadModel(const Model& model, const LoadProgress& progress) {
  Layout layout(model);
  ERNE_RETURN_IF_ERROR(layout.Run());
  Memory memory;
  {
    Uploader uploader(layout, progress);
    ERNE_RETURN_IF_ERROR(uploader.Run(memory));
  }
  DeviceModel out = std::move(layout.out());
  out.memory = std::move(memory);
  if (!model.weights.head.present()) out.head = out.embedding;
  return out;
}

Result<DeviceModelSize> MeasureDeviceModel(const Model& model) {
  Layout layout(model);
  ERNE_RETURN_IF_ERROR(layout.Run());
  return DeviceModelSize{layout.arena().bytes(), layout.out().activation_type};
}

}  // namespace erne::cuda
