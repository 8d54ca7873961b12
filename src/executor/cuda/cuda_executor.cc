// A step: the host plans it into pinned memory (step_plan.h), one copy brings the plan to the
// device, then kernels follow each other without the host:
//
//   embed
//   norm + q, k, v + rope + cache | attention | o, added to x
//   norm + gate, up + SiLU | down, added to x             (dense)
//   norm | router | choose | sort | gate, up | down | weighted sum, added to x     (experts)
//   norm + head
//
// then the sampler's (token_sampler.h) where tokens are asked for; logits that are asked for come
// back in one copy. Up to kMostNormRows rows a product takes the norm before it
// along; beyond that the norm is a kernel. Batches of single rows (decoding) are replayed from CUDA
// graphs, made once for each number of rows in GraphRows; others are launched one by one. On
// compute capability 9.0 a kernel starts while the one before it still runs, and fetches its
// weights.
//
// A fault of the device (an illegal address, a lost GPU) is sticky: every later step fails too,
// with the same words.
#include "executor/cuda/cuda_executor.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "executor/batch_check.h"
#include "executor/cuda/attention.h"
#include "executor/cuda/device.h"
#include "executor/cuda/device_model.h"
#include "executor/cuda/gemm.h"
#include "executor/cuda/row_kernels.h"
#include "executor/cuda/step_plan.h"
#include "executor/cuda/token_sampler.h"
#include "executor/cuda/workspace.h"
#include "executor/rope.h"

namespace erne {
namespace cuda {
namespace {

// Most of the time that loading takes is the weights'.
constexpr double kWeightShare = 0.9;

ActivationType CacheActivation(KvDType dtype) {
  if (dtype == KvDType::kF32) return ActivationType::kF32;
  return dtype == KvDType::kBF16 ? ActivationType::kBF16 : ActivationType::kF16;
}

Status CheckKvDType(KvDType dtype) {
  if (dtype != KvDType::kInt8) return {};
  return Unimplemented(
      "the CUDA executor keeps no int8 keys and values yet; --kv-cache-dtype f16 is its smallest");
}

Status CheckMoe(const ModelSpec& spec) {
  const RoutingSpec& routing = spec.moe.routing;
  if (!spec.has_moe() || (routing.experts <= kMaxExperts && routing.top_k <= kMaxTopK)) return {};
  return InvalidArgument(StrCat("the CUDA executor chooses at most ", kMaxTopK, " of ", kMaxExperts,
                                " experts, not ", routing.top_k, " of ", routing.experts));
}

// One more block than the pool has: rows that pad a batch write there.
uint64_t KvBytes(const ModelSpec& spec, const ExecutorLimits& limits) {
  const AttentionSpec& a = spec.attention;
  const int dim = PaddedHeadDim(limits.kv_dtype, static_cast<int>(a.head_dim));
  return static_cast<uint64_t>(spec.num_layers() * (limits.num_blocks + 1) * a.kv_heads *
                               KvHeadBytes(limits.kv_dtype, dim));
}

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(DeviceModel model, ExecutorInfo described, const ExecutorLimits& limits,
               const Device& device)
      : model_(std::move(model)),
        described_(std::move(described)),
        limits_(limits),
        sizes_(SizesOf(model_.spec, limits)),
        planner_(PlannerLimits()) {
    launcher_.processors = device.processors;
    launcher_.shared_bytes = device.shared_bytes;
    launcher_.dependent = device.major >= 9;
  }

  ~CudaExecutor() override {
    for (const auto& [rows, graph] : graphs_) static_cast<void>(cudaGraphExecDestroy(graph));
    if (launcher_.stream != nullptr) static_cast<void>(cudaStreamDestroy(launcher_.stream));
  }

  Status Allocate() {
    ERNE_RETURN_IF_CUDA_ERROR(PrepareGemm(launcher_.shared_bytes), "preparing the kernels");
    ERNE_RETURN_IF_CUDA_ERROR(PrepareAttention(launcher_.shared_bytes), "preparing the kernels");
    ERNE_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&launcher_.stream, cudaStreamNonBlocking),
                              "making a stream");
    space_.Reserve(model_.spec, limits_, model_.permutes());
    ERNE_RETURN_IF_ERROR(space_.arena.Allocate("the workspace"));
    ERNE_ASSIGN_OR_RETURN(
        kv_, Memory::Allocate(Memory::Place::kDevice, KvBytes(model_.spec, limits_),
                              StrCat("the KV cache of ", limits_.num_blocks, " blocks (",
                                     described_.kv_type, ")")));
    ERNE_ASSIGN_OR_RETURN(
        plan_,
        Memory::Allocate(Memory::Place::kPinned, static_cast<uint64_t>(sizes_.words) * 4, "plans"));
    ERNE_ASSIGN_OR_RETURN(
        logits_,
        Memory::Allocate(Memory::Place::kPinned,
                         static_cast<uint64_t>(limits_.max_logit_rows * model_.spec.vocab_size) * 4,
                         "logits"));
    if (SamplesVocab(model_.spec.vocab_size)) {
      sampler_.emplace(model_.spec.vocab_size, limits_.max_sequences);
      ERNE_RETURN_IF_ERROR(sampler_->Allocate());
    }
    ERNE_RETURN_IF_ERROR(FillAngles());
    ERNE_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize(), "preparing the GPU's memory");
    return MakeGraphs();
  }

  Result<std::span<const float>> Run(const Batch& batch) override {
    return RunWhile(batch, [] {});
  }

  Result<std::span<const float>> RunWhile(const Batch& batch,
                                          const std::function<void()>& meanwhile) override {
    const Result<int64_t> copied = Start(batch);
    meanwhile();
    if (!copied.ok()) return copied.status();
    ERNE_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(launcher_.stream), kWhat);
    const std::span<float> logits(reinterpret_cast<float*>(logits_.data()),
                                  static_cast<size_t>(limits_.max_logit_rows) * vocab());
    const size_t floats = static_cast<size_t>(*copied) * vocab();
    // A row that asked for a token was not copied, so there is room for one.
    if (sampler_) {
      ERNE_RETURN_IF_CUDA_ERROR(sampler_->Finish(batch, space_.logits, logits.subspan(floats)),
                                kWhat);
    }
    return std::span<const float>(logits.first(floats));
  }

  // H200, ERNIE-4.5-0.3B: prompts of 128 and 512 rows take 2.0 and 3.7 ms, so that having any costs
  // as much as 340 rows.
  int64_t least_prompt_rows() const override { return 256; }
  bool chooses_tokens() const override { return sampler_.has_value(); }
  Result<SampledToken> TakeToken(size_t sequence) override { return sampler_->Take(sequence); }

  int threads() const override { return pool_.threads(); }
  void ForEach(int64_t count, const std::function<void(int64_t)>& body) override {
    pool_.ParallelFor(count, 1, [&body](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  }

  void SetRoutingTrace(RoutingTrace* trace) override { trace_ = trace; }
  const ModelSpec& spec() const override { return model_.spec; }
  const ExecutorLimits& limits() const override { return limits_; }

  ExecutorInfo info() const override {
    ExecutorInfo info = described_;
    info.weight_bytes = model_.memory.bytes();
    info.kv_bytes = kv_.bytes();
    info.workspace_bytes = space_.arena.bytes() + (sampler_ ? sampler_->bytes() : 0);
    return info;
  }

 private:
  static constexpr const char* kWhat = "the GPU failed in a step";

  size_t vocab() const { return static_cast<size_t>(model_.spec.vocab_size); }

  // Puts all of a step on its way; returns how many rows of logits will be in the host's memory.
  Result<int64_t> Start(const Batch& batch) {
    const BatchSize size = CheckBatch(batch, model_.spec.vocab_size, limits_);
    const std::span<int32_t> plan(reinterpret_cast<int32_t*>(plan_.data()),
                                  static_cast<size_t>(sizes_.words));
    const bool may_pad = trace_ == nullptr && size.rows <= largest_graph_;
    planner_.Plan(batch, may_pad ? GraphRows(static_cast<int>(size.rows)) : 0, plan);
    const StepShape& shape = planner_.shape();
    if (sampler_) ERNE_RETURN_IF_CUDA_ERROR(sampler_->Plan(batch, launcher_), kWhat);
    ERNE_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(space_.plan, plan.data(), static_cast<size_t>(planner_.words()) * 4,
                        cudaMemcpyHostToDevice, launcher_.stream),
        kWhat);
    const auto graph = graphs_.find(shape.rows);
    if (may_pad && graph != graphs_.end() && IsGraphShape(shape)) {
      ERNE_RETURN_IF_CUDA_ERROR(cudaGraphLaunch(graph->second, launcher_.stream), kWhat);
    } else {
      ERNE_RETURN_IF_ERROR(Enqueue(shape));
    }
    if (sampler_) ERNE_RETURN_IF_CUDA_ERROR(sampler_->Launch(launcher_, space_.logits), kWhat);
    return CopyLogits(batch);
  }

  // Starts copies of the rows that the caller wants; returns how many there are.
  Result<int64_t> CopyLogits(const Batch& batch) {
    auto* const logits = reinterpret_cast<float*>(logits_.data());
    int64_t row = 0;     // of the step
    int64_t copied = 0;  // rows
    for (size_t s = 0; s < batch.size();) {
      const int64_t first = row;
      for (; s < batch.size() && batch[s].logits != SequenceRows::Logits::kToken; ++s) {
        row += LogitRows(batch[s]);
      }
      if (row > first) {
        ERNE_RETURN_IF_CUDA_ERROR(
            cudaMemcpyAsync(logits + copied * model_.spec.vocab_size,
                            space_.logits + first * model_.spec.vocab_size,
                            static_cast<size_t>(row - first) * vocab() * sizeof(float),
                            cudaMemcpyDeviceToHost, launcher_.stream),
            kWhat);
        copied += row - first;
      }
      for (; s < batch.size() && batch[s].logits == SequenceRows::Logits::kToken; ++s) ++row;
    }
    return copied;
  }

  StepLimits PlannerLimits() const {
    StepLimits limits;
    limits.group = sizes_.group;
    limits.split = limits_.kv_dtype != KvDType::kF32;
    limits.max_states = sizes_.max_states;
    limits.max_split_ranges = sizes_.max_split_ranges;
    limits.spare_block = static_cast<int32_t>(limits_.num_blocks);
    limits.max_words = sizes_.words;
    return limits;
  }

  // cos and sin of every position and pair.
  Status FillAngles() {
    const AttentionSpec& a = model_.spec.attention;
    const Rope rope(a.rope, a.head_dim);
    const auto pairs = static_cast<size_t>(rope.pairs());
    std::vector<float2> angles(static_cast<size_t>(limits_.max_context) * pairs);
    pool_.ParallelFor(limits_.max_context, 64, [&](int64_t begin, int64_t end, int) {
      std::vector<float> cos(pairs);
      std::vector<float> sin(pairs);
      for (int64_t position = begin; position < end; ++position) {
        rope.Angles(position, cos, sin);
        for (size_t i = 0; i < pairs; ++i) {
          angles[static_cast<size_t>(position) * pairs + i] = {cos[i], sin[i]};
        }
      }
    });
    ERNE_RETURN_IF_CUDA_ERROR(cudaMemcpy(space_.angles, angles.data(),
                                         angles.size() * sizeof(float2), cudaMemcpyHostToDevice),
                              "copying the angles of rope");
    return {};
  }

  // Graphs hold batches of single rows: the plan's other parts have fixed sizes then.
  StepShape GraphShape(int rows) const {
    StepShape shape;
    shape.rows = shape.logit_rows = rows;
    shape.all_have_logits = true;
    shape.split_ranges = rows * ((sizes_.group + kTileQueries - 1) / kTileQueries);
    return shape;
  }
  bool IsGraphShape(const StepShape& shape) const {
    const StepShape wanted = GraphShape(shape.rows);
    return shape.logit_rows == wanted.logit_rows && shape.all_have_logits &&
           shape.split_ranges == wanted.split_ranges && shape.walked_ranges == 0;
  }

  Status MakeGraphs() {
    if (limits_.kv_dtype == KvDType::kF32) return {};
    const int64_t most =
        std::min({limits_.max_sequences, limits_.max_rows, limits_.max_logit_rows});
    for (int rows = 1; rows <= GraphRows(static_cast<int>(most)); rows = GraphRows(rows + 1)) {
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t executable = nullptr;
      ERNE_RETURN_IF_CUDA_ERROR(
          cudaStreamBeginCapture(launcher_.stream, cudaStreamCaptureModeThreadLocal),
          "recording a graph");
      const Status enqueued = Enqueue(GraphShape(rows));
      const cudaError_t ended = cudaStreamEndCapture(launcher_.stream, &graph);
      ERNE_RETURN_IF_ERROR(enqueued);
      ERNE_RETURN_IF_CUDA_ERROR(ended, "recording a graph");
      const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
      static_cast<void>(cudaGraphDestroy(graph));
      ERNE_RETURN_IF_CUDA_ERROR(made, "making a graph");
      graphs_[rows] = executable;
      ERNE_RETURN_IF_CUDA_ERROR(cudaGraphUpload(executable, launcher_.stream), "making a graph");
      largest_graph_ = rows;
    }
    ERNE_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(launcher_.stream), "making graphs");
    return {};
  }

  // All kernels of a step.
  Status Enqueue(const StepShape& shape) {
    launcher_.follows_kernel = false;  // a copy was last
    shape_ = shape;
    layout_ = LayoutOf(shape);
    if (trace_ != nullptr) trace_->layers.clear();
    EmbedArgs embed;
    embed.embedding = model_.embedding.w;
    embed.tokens = space_.plan + layout_.tokens;
    embed.rows = shape.rows;
    embed.x = space_.x.data;
    embed.stride = space_.x.stride;
    ERNE_RETURN_IF_CUDA_ERROR(LaunchEmbed(launcher_, embed), kWhat);
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      const DeviceLayer& layer = model_.layers[i];
      ERNE_RETURN_IF_CUDA_ERROR(Attention(layer, i), kWhat);
      if (layer.dense) {
        ERNE_RETURN_IF_CUDA_ERROR(Dense(layer), kWhat);
      } else {
        ERNE_RETURN_IF_ERROR(Moe(layer, i));
      }
    }
    ERNE_RETURN_IF_CUDA_ERROR(Head(), kWhat);
    return {};
  }

  NormArgs NormOf(const float* weight, const DeviceLinear& reader, const Rows<void>& out) const {
    NormArgs args;
    args.x = space_.x.data;
    args.stride = space_.x.stride;
    args.rows = shape_.rows;
    args.width = static_cast<int>(model_.spec.hidden);
    args.weight = weight;
    args.eps = static_cast<float>(model_.spec.norm_eps);
    args.columns = reader.columns;
    args.type = ActivationOf(reader.w.kind);
    args.out = out.data;
    args.out_stride = out.stride;
    return args;
  }

  GemmArgs Product(const DeviceLinear& matrix, const Rows<void>& x, int rows) const {
    GemmArgs args;
    args.w = matrix.w;
    args.rows = rows;
    args.x = x.data;
    args.x_stride = x.stride;
    args.out.outputs = matrix.outputs;
    return args;
  }

  // The product of the normed residual stream, in one kernel or two.
  cudaError_t NormedProduct(const float* norm, const DeviceLinear& matrix,
                            const EpilogueArgs& out) {
    GemmArgs args = Product(matrix, space_.normed, shape_.rows);
    args.out = out;
    args.out.outputs = matrix.outputs;
    if (matrix.columns == nullptr && CanFuseNorm(launcher_, matrix.w, shape_.rows)) {
      args.norm_x = space_.x.data;
      args.norm_stride = space_.x.stride;
      args.norm_weight = norm;
      args.norm_eps = static_cast<float>(model_.spec.norm_eps);
    } else {
      const cudaError_t error = LaunchNorm(launcher_, NormOf(norm, matrix, space_.normed));
      if (error != cudaSuccess) return error;
    }
    return LaunchGemm(launcher_, args);
  }

  // x += matrix in, with the inputs in the matrix's order.
  cudaError_t AddProduct(const DeviceLinear& matrix, const Rows<void>& in) {
    Rows<void> from = in;
    if (matrix.columns != nullptr) {
      GatherArgs gather;
      gather.in = static_cast<const uint16_t*>(in.data);
      gather.out = static_cast<uint16_t*>(space_.gathered.data);
      gather.stride = in.stride;
      gather.rows = shape_.rows;
      gather.width = matrix.w.inputs;
      gather.columns = matrix.columns;
      const cudaError_t error = LaunchGather(launcher_, gather);
      if (error != cudaSuccess) return error;
      from.data = space_.gathered.data;
    }
    GemmArgs args = Product(matrix, from, shape_.rows);
    args.out.kind = Epilogue::kAdd;
    args.out.out = space_.x.data;
    args.out.stride = space_.x.stride;
    return LaunchGemm(launcher_, args);
  }

  KvView CacheOf(size_t layer) const {
    const AttentionSpec& a = model_.spec.attention;
    KvView kv;
    kv.dtype = limits_.kv_dtype;
    kv.kv_heads = static_cast<int>(a.kv_heads);
    kv.head_dim = static_cast<int>(a.head_dim);
    kv.dim = PaddedHeadDim(limits_.kv_dtype, kv.head_dim);
    kv.data = reinterpret_cast<uint8_t*>(kv_.data()) + static_cast<int64_t>(layer) *
                                                           (limits_.num_blocks + 1) * kv.kv_heads *
                                                           KvHeadBytes(kv.dtype, kv.dim);
    return kv;
  }

  cudaError_t Attention(const DeviceLayer& layer, size_t index) {
    const AttentionSpec& a = model_.spec.attention;
    EpilogueArgs out;
    out.kind = Epilogue::kQkv;
    out.type = CacheActivation(limits_.kv_dtype);
    out.interleaved = a.rope.style == RopeStyle::kInterleaved;
    out.heads = static_cast<int>(a.heads);
    out.out = space_.q.data;
    out.stride = space_.q.stride;
    out.kv = CacheOf(index);
    out.angles = space_.angles;
    out.positions = space_.plan + layout_.positions;
    out.slots = space_.plan + layout_.slots;
    cudaError_t error = cudaSuccess;
    if (!a.qk_norm) {
      error = NormedProduct(layer.input_norm, layer.qkv, out);
    } else {
      EpilogueArgs plain;
      plain.out = space_.qkv.data;
      plain.stride = space_.qkv.stride;
      error = NormedProduct(layer.input_norm, layer.qkv, plain);
      HeadNormArgs norm;
      norm.qkv = space_.qkv.data;
      norm.stride = space_.qkv.stride;
      norm.rows = shape_.rows;
      norm.q_norm = layer.q_norm;
      norm.k_norm = layer.k_norm;
      norm.eps = static_cast<float>(model_.spec.norm_eps);
      norm.out = out;
      if (error == cudaSuccess) error = LaunchHeadNorm(launcher_, norm);
    }
    if (error == cudaSuccess) error = Attend(layer, out.kv);
    if (error == cudaSuccess) error = AddProduct(layer.o, space_.attended);
    return error;
  }

  cudaError_t Attend(const DeviceLayer& layer, const KvView& kv) {
    AttentionArgs args;
    args.kv = kv;
    args.heads = static_cast<int>(model_.spec.attention.heads);
    args.q = space_.q.data;
    args.out = space_.attended.data;
    args.out_stride = space_.attended.stride;
    args.out_type = ActivationOf(layer.o.w.kind);
    args.blocks = space_.plan + layout_.tables;
    args.sums = space_.span_sums;
    args.maxima = space_.span_maxima;
    args.counters = space_.counters;
    cudaError_t error = cudaSuccess;
    if (shape_.split_ranges > 0) {
      args.ranges = reinterpret_cast<const QueryRange*>(space_.plan + layout_.split_ranges);
      args.num_ranges = shape_.split_ranges;
      error = LaunchSplitAttention(launcher_, args);
    }
    if (error == cudaSuccess && shape_.walked_ranges > 0) {
      args.ranges = reinterpret_cast<const QueryRange*>(space_.plan + layout_.walked_ranges);
      args.num_ranges = shape_.walked_ranges;
      error = kv.dtype == KvDType::kF32 ? LaunchF32Attention(launcher_, args)
                                        : LaunchWalkedAttention(launcher_, args);
    }
    return error;
  }

  static EpilogueArgs GatedInto(const DeviceLinear& reader, const Rows<void>& out) {
    EpilogueArgs args;
    args.kind = Epilogue::kSwiGlu;
    args.type = ActivationOf(reader.w.kind);
    args.out = out.data;
    args.stride = out.stride;
    return args;
  }

  cudaError_t Dense(const DeviceLayer& layer) {
    const DeviceMlp& mlp = *layer.dense;
    const cudaError_t error =
        NormedProduct(layer.post_norm, mlp.gate_up, GatedInto(mlp.down, space_.hidden));
    return error == cudaSuccess ? AddProduct(mlp.down, space_.hidden) : error;
  }

  Status Moe(const DeviceLayer& layer, size_t index) {
    const DeviceMoe& moe = *layer.moe;
    // Both read `normed`, and may want it in different types.
    if (moe.shared) ERNE_RETURN_IF_CUDA_ERROR(SharedExpert(layer), kWhat);
    ERNE_RETURN_IF_CUDA_ERROR(ChooseExperts(layer), kWhat);
    if (trace_ != nullptr) ERNE_RETURN_IF_ERROR(TraceExperts(index));
    ERNE_RETURN_IF_CUDA_ERROR(Experts(moe.experts), kWhat);
    CombineArgs combine;
    combine.parts = space_.expert_out.data;
    combine.shared = moe.shared ? space_.shared_out.data : nullptr;
    combine.stride = space_.x.stride;
    combine.slots = space_.slots;
    combine.weights = space_.expert_weights;
    combine.rows = shape_.rows;
    combine.top_k = static_cast<int>(model_.spec.moe.routing.top_k);
    combine.width = static_cast<int>(model_.spec.hidden);
    combine.x = space_.x.data;
    ERNE_RETURN_IF_CUDA_ERROR(LaunchCombine(launcher_, combine), kWhat);
    return {};
  }

  // normed, in both types; logits of the router; ids and weights; slots.
  cudaError_t ChooseExperts(const DeviceLayer& layer) {
    const RoutingSpec& routing = model_.spec.moe.routing;
    const DeviceMoe& moe = *layer.moe;
    NormArgs norm = NormOf(layer.post_norm, moe.experts.gate_up, space_.normed);
    norm.plain = space_.normed_f32.data;
    GemmArgs router =
        Product(moe.router, {space_.normed_f32.data, space_.normed_f32.stride}, shape_.rows);
    router.out.out = space_.router_logits.data;
    router.out.stride = space_.router_logits.stride;
    RouteArgs route;
    route.logits = space_.router_logits.data;
    route.stride = space_.router_logits.stride;
    route.rows = shape_.rows;
    route.experts = static_cast<int>(routing.experts);
    route.top_k = static_cast<int>(routing.top_k);
    route.correction_bias = moe.correction_bias;
    route.renormalize = routing.renormalize;
    route.norm_min = static_cast<float>(routing.norm_min);
    route.ids = space_.expert_ids;
    route.weights = space_.expert_weights;
    GroupArgs group;
    group.ids = space_.expert_ids;
    group.rows = shape_.rows;
    group.experts = route.experts;
    group.top_k = route.top_k;
    group.begin = space_.expert_begin;
    group.slot_rows = space_.slot_rows;
    group.slots = space_.slots;
    cudaError_t error = LaunchNorm(launcher_, norm);
    if (error == cudaSuccess) error = LaunchGemm(launcher_, router);
    if (error == cudaSuccess) error = LaunchRoute(launcher_, route);
    if (error == cudaSuccess) error = LaunchGroup(launcher_, group);
    return error;
  }

  Status TraceExperts(size_t layer) {
    RoutingTrace::Layer traced;
    traced.layer = static_cast<int64_t>(layer);
    traced.ids.resize(static_cast<size_t>(shape_.rows * model_.spec.moe.routing.top_k));
    ERNE_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(traced.ids.data(), space_.expert_ids, traced.ids.size() * sizeof(int32_t),
                        cudaMemcpyDeviceToHost, launcher_.stream),
        kWhat);
    ERNE_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(launcher_.stream), kWhat);
    launcher_.follows_kernel = false;
    trace_->layers.push_back(std::move(traced));
    return {};
  }

  cudaError_t SharedExpert(const DeviceLayer& layer) {
    const DeviceMlp& mlp = *layer.moe->shared;
    GemmArgs down = Product(mlp.down, space_.shared_hidden, shape_.rows);
    down.out.out = space_.shared_out.data;
    down.out.stride = space_.shared_out.stride;
    const cudaError_t error =
        NormedProduct(layer.post_norm, mlp.gate_up, GatedInto(mlp.down, space_.shared_hidden));
    return error == cudaSuccess ? LaunchGemm(launcher_, down) : error;
  }

  cudaError_t Experts(const DeviceMlp& mlp) {
    const auto grouped = [&](const DeviceLinear& matrix, const Rows<void>& x) {
      GemmArgs args = Product(matrix, x, shape_.rows);
      args.groups = matrix.groups;
      args.group_begin = space_.expert_begin;
      args.group_bytes = matrix.group_bytes;
      args.group_bias = matrix.group_bias;
      return args;
    };
    GemmArgs up = grouped(mlp.gate_up, space_.normed);
    up.x_rows = space_.slot_rows;
    up.out = GatedInto(mlp.down, space_.expert_hidden);
    up.out.outputs = mlp.gate_up.outputs;
    GemmArgs down = grouped(mlp.down, space_.expert_hidden);
    down.out.out = space_.expert_out.data;
    down.out.stride = space_.expert_out.stride;
    const cudaError_t error = LaunchGemm(launcher_, up);
    return error == cudaSuccess ? LaunchGemm(launcher_, down) : error;
  }

  cudaError_t Head() {
    if (shape_.logit_rows == 0) return cudaSuccess;
    GemmArgs args = Product(model_.head, space_.head_in, shape_.logit_rows);
    args.out.out = space_.logits;
    args.out.stride = model_.spec.vocab_size;
    if (CanFuseNorm(launcher_, model_.head.w, shape_.logit_rows)) {
      args.norm_x = space_.x.data;
      args.norm_rows = space_.plan + layout_.logit_rows;
      args.norm_stride = space_.x.stride;
      args.norm_weight = model_.final_norm;
      args.norm_eps = static_cast<float>(model_.spec.norm_eps);
    } else {
      NormArgs norm = NormOf(model_.final_norm, model_.head, space_.head_in);
      norm.x_rows = space_.plan + layout_.logit_rows;
      norm.rows = shape_.logit_rows;
      const cudaError_t error = LaunchNorm(launcher_, norm);
      if (error != cudaSuccess) return error;
    }
    return LaunchGemm(launcher_, args);
  }

  const DeviceModel model_;
  const ExecutorInfo described_;
  const ExecutorLimits limits_;
  const WorkspaceSizes sizes_;
  StepPlanner planner_;
  ThreadPool pool_;  // for what the host computes
  Stream launcher_;
  Workspace space_;
  std::optional<TokenSampler> sampler_;
  Memory kv_;                              // [layers][blocks + 1][kv_heads][KvHeadBytes]
  Memory plan_;                            // pinned, [words]
  Memory logits_;                          // pinned, [logit rows, vocab]
  std::map<int, cudaGraphExec_t> graphs_;  // by rows
  int64_t largest_graph_ = 0;
  RoutingTrace* trace_ = nullptr;
  // Of the step that is being enqueued.
  StepShape shape_;
  StepLayout layout_;
};

ExecutorInfo Describe(const Model& model, const DeviceModelSize& size, const Device& device,
                      KvDType kv_dtype) {
  ExecutorInfo info;
  info.name = StrCat("cuda (", device.name, ")");
  info.weight_type = model.precision;
  info.activation_type = size.activation_type;
  info.kv_type = KvDTypeName(kv_dtype);
  return info;
}

Status CheckAll(const Model& model, const ExecutorLimits& limits) {
  ERNE_RETURN_IF_ERROR(CheckLimits(limits));
  ERNE_RETURN_IF_ERROR(CheckKvDType(limits.kv_dtype));
  return CheckMoe(model.spec);
}

}  // namespace
}  // namespace cuda

Result<CudaDevice> FindCudaDevice() {
  ERNE_ASSIGN_OR_RETURN(const cuda::Device device, cuda::OpenDevice());
  return CudaDevice{device.name, device.total_bytes, device.free_bytes};
}

Result<std::unique_ptr<Executor>> MakeCudaExecutor(std::shared_ptr<const Model> model,
                                                   const ExecutorLimits& limits,
                                                   const LoadProgress& progress) {
  ERNE_RETURN_IF_ERROR(cuda::CheckAll(*model, limits));
  ERNE_ASSIGN_OR_RETURN(const cuda::DeviceModelSize size, cuda::MeasureDeviceModel(*model));
  ERNE_ASSIGN_OR_RETURN(const cuda::Device device, cuda::OpenDevice());
  const LoadProgress weights = [&progress](double done) {
    if (progress) progress(done * cuda::kWeightShare);
  };
  ExecutorInfo described = cuda::Describe(*model, size, device, limits.kv_dtype);
  ERNE_ASSIGN_OR_RETURN(cuda::DeviceModel uploaded, cuda::UploadModel(*model, weights));
  auto executor = std::make_unique<cuda::CudaExecutor>(std::move(uploaded), std::move(described),
                                                       limits, device);
  ERNE_RETURN_IF_ERROR(executor->Allocate());
  if (progress) progress(1.0);
  return std::unique_ptr<Executor>(std::move(executor));
}

Result<ExecutorInfo> DescribeCudaExecutor(const Model& model, KvDType kv_dtype) {
  ERNE_RETURN_IF_ERROR(cuda::CheckKvDType(kv_dtype));
  ERNE_ASSIGN_OR_RETURN(const cuda::DeviceModelSize size, cuda::MeasureDeviceModel(model));
  ERNE_ASSIGN_OR_RETURN(const cuda::Device device, cuda::OpenDevice());
  return cuda::Describe(model, size, device, kv_dtype);
}

Result<uint64_t> CudaWeightBytes(const Model& model) {
  ERNE_ASSIGN_OR_RETURN(const cuda::DeviceModelSize size, cuda::MeasureDeviceModel(model));
  return size.bytes;
}

uint64_t CudaBlockBytes(const ModelSpec& spec, KvDType kv_dtype) {
  ExecutorLimits none;
  none.kv_dtype = kv_dtype;
  return cuda::KvBytes(spec, none);
}

uint64_t CudaWorkspaceBytes(const ModelSpec& spec, const ExecutorLimits& limits) {
  cuda::Workspace space;
  space.Reserve(spec, limits, true);
  return space.arena.bytes() + cuda::SamplerBytes(spec.vocab_size, limits.max_sequences) +
         CudaBlockBytes(spec, limits.kv_dtype);
}

}  // namespace erne
