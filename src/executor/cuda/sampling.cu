#include "executor/cuda/device_code.cuh"
#include "executor/cuda/launch.cuh"
#include "executor/cuda/row_adjuster.h"
#include "executor/cuda/sampling.h"

namespace erne::cuda {
namespace {

// The first two kernels cut a row into parts of so many chunks, a block each; a warp takes one
// chunk at a time.
constexpr int kPartChunks = 32;
constexpr int kPartTokens = kPartChunks * kChunkTokens;
constexpr int kPartThreads = 256;
constexpr int kPartWarps = kPartThreads / 32;
constexpr int kChunkLoads = kChunkTokens / 32;
constexpr int kRowThreads = 512;

// The rows of arrays with two planes: raw ones, then adjusted ones.
template <typename T>
__device__ T* PlaneRow(T* data, const SampleArgs& args, int chunks, bool adjusted, int row) {
  return data + (static_cast<int64_t>(adjusted ? args.rows : 0) + row) * chunks;
}

// What RowAdjuster and RowSampler want of a block.
template <int kThreads>
struct Block {
  template <typename Body>
  __device__ void For(int count, const Body& body) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) body(i);
    __syncthreads();
  }
  __device__ void Wait() { __syncthreads(); }
  __device__ int32_t Add(int32_t* to, int32_t value) { return atomicAdd(to, value); }
  __device__ void Min(int32_t* to, int32_t value) { atomicMin(to, value); }
  __device__ void Max(uint32_t* to, uint32_t value) { atomicMax(to, value); }

  // Each thread sums up some neighbours; a warp, then the block, adds up what is before them.
  __device__ void Scan(uint64_t* values, int count) {
    constexpr int kWarps = kThreads / 32;
    __shared__ uint64_t warp_sums[kWarps];
    const int each = (count + kThreads - 1) / kThreads;
    const int begin = static_cast<int>(threadIdx.x) * each;
    const int end = min(begin + each, count);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    uint64_t own = 0;
    for (int i = begin; i < end; ++i) own += values[i];
    uint64_t sum = own;
    for (int offset = 1; offset < 32; offset *= 2) {
      const uint64_t before = __shfl_up_sync(kFullWarp, sum, offset);
      if (lane >= offset) sum += before;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    sum -= own;
    for (int i = 0; i < warp; ++i) sum += warp_sums[i];
    for (int i = begin; i < end; ++i) values[i] = sum += values[i];
    __syncthreads();
  }
};

// maxima[chunk] for the chunks of a part.
__device__ void FindMaxima(const float* logits, int vocab, uint32_t* maxima) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = static_cast<int>(threadIdx.x) / 32; i < kPartChunks; i += kPartWarps) {
    const int chunk = static_cast<int>(blockIdx.x) * kPartChunks + i;
    if (chunk * kChunkTokens >= vocab) return;
    uint32_t max = 0;
    for (int load = 0; load < kChunkLoads; ++load) {
      const int token = chunk * kChunkTokens + load * 32 + lane;
      if (token < vocab) max = ::max(max, CheckedKey(logits[token]));
    }
    max = __reduce_max_sync(kFullWarp, max);
    if (lane == 0) maxima[chunk] = max;
  }
}

// [parts, rows] blocks
__global__ void __launch_bounds__(kPartThreads) AdjustKernel(SampleArgs args) {
  WaitForPrevious();
  TriggerDependents();
  const auto row = static_cast<int>(blockIdx.y);
  const RowTask task = args.tasks[row];
  const int chunks = (args.vocab + kChunkTokens - 1) / kChunkTokens;
  const float* raw = args.logits + static_cast<int64_t>(task.logit_row) * args.vocab;
  FindMaxima(raw, args.vocab, PlaneRow(args.maxima, args, chunks, false, row));
  if (task.adjusts == 0) return;
  const int begin = static_cast<int>(blockIdx.x) * kPartTokens;
  const int end = min(begin + kPartTokens, args.vocab);
  float* adjusted = args.adjusted + static_cast<int64_t>(row) * args.vocab;
  Block<kPartThreads> block;
  RowAdjuster(block, task, args.words, begin, end).Adjust(raw, adjusted);
  FindMaxima(adjusted, args.vocab, PlaneRow(args.maxima, args, chunks, true, row));
}

// The largest of `count` keys, for all threads of the block.
__device__ uint32_t BlockMax(const uint32_t* keys, int count) {
  __shared__ uint32_t shared[kPartWarps];
  uint32_t max = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kPartThreads)
    max = ::max(max, keys[i]);
  max = __reduce_max_sync(kFullWarp, max);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = max;
  __syncthreads();
  for (int i = 0; i < kPartWarps; ++i) max = ::max(max, shared[i]);
  __syncthreads();
  return max;
}

// sums[chunk] for the chunks of a part. A row that nothing can be drawn from gives what nobody
// reads.
__device__ void SumWeights(const float* logits, int vocab, const uint32_t* maxima, double inverse,
                           uint64_t* sums) {
  const double max = LogitOf(BlockMax(maxima, (vocab + kChunkTokens - 1) / kChunkTokens));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = static_cast<int>(threadIdx.x) / 32; i < kPartChunks; i += kPartWarps) {
    const int chunk = static_cast<int>(blockIdx.x) * kPartChunks + i;
    if (chunk * kChunkTokens >= vocab) return;
    uint64_t sum = 0;
    for (int load = 0; load < kChunkLoads; ++load) {
      const int token = chunk * kChunkTokens + load * 32 + lane;
      if (token < vocab) {
        sum += sampling::FixedExp((static_cast<double>(logits[token]) - max) * inverse);
      }
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
    if (lane == 0) sums[chunk] = sum;
  }
}

// [parts, rows] blocks
__global__ void __launch_bounds__(kPartThreads) WeighKernel(SampleArgs args) {
  WaitForPrevious();
  TriggerDependents();
  const auto row = static_cast<int>(blockIdx.y);
  const RowTask task = args.tasks[row];
  const int chunks = (args.vocab + kChunkTokens - 1) / kChunkTokens;
  const float* raw = args.logits + static_cast<int64_t>(task.logit_row) * args.vocab;
  const bool adjusts = task.adjusts != 0;
  if (task.top_logits >= 0) {
    SumWeights(raw, args.vocab, PlaneRow(args.maxima, args, chunks, false, row), 1.0,
               PlaneRow(args.sums, args, chunks, false, row));
  }
  if (task.greedy() || !task.ranks_all()) return;
  SumWeights(adjusts ? args.adjusted + static_cast<int64_t>(row) * args.vocab : raw, args.vocab,
             PlaneRow(args.maxima, args, chunks, adjusts, row), task.inverse,
             PlaneRow(args.sums, args, chunks, true, row));
}

// [rows] blocks
__global__ void __launch_bounds__(kRowThreads) ChooseKernel(SampleArgs args) {
  extern __shared__ uint64_t shared[];
  WaitForPrevious();
  TriggerDependents();
  const auto row = static_cast<int>(blockIdx.x);
  const RowTask task = args.tasks[row];
  const int chunks = (args.vocab + kChunkTokens - 1) / kChunkTokens;
  const bool adjusts = task.adjusts != 0;
  SampledRow view;
  view.vocab = args.vocab;
  view.raw.logits = args.logits + static_cast<int64_t>(task.logit_row) * args.vocab;
  view.raw.maxima = PlaneRow(args.maxima, args, chunks, false, row);
  view.raw.sums = PlaneRow(args.sums, args, chunks, false, row);
  view.adjusted.logits =
      adjusts ? args.adjusted + static_cast<int64_t>(row) * args.vocab : view.raw.logits;
  view.adjusted.maxima = PlaneRow(args.maxima, args, chunks, adjusts, row);
  view.adjusted.sums = PlaneRow(args.sums, args, chunks, true, row);
  Block<kRowThreads> block;
  RowSampler sampler(block, *reinterpret_cast<SamplerSpace*>(shared), view, task);
  sampler.Choose(args.results + row);
}

}  // namespace

cudaError_t PrepareSampling() {
  return cudaFuncSetAttribute(ChooseKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(sizeof(SamplerSpace)));
}

cudaError_t LaunchSample(Stream& stream, const SampleArgs& args) {
  const auto rows = static_cast<unsigned>(args.rows);
  const dim3 parts(CeilDiv(args.vocab, kPartTokens), rows);
  cudaError_t error = Launch(stream, AdjustKernel, parts, kPartThreads, 0, args);
  if (error == cudaSuccess && args.weighs) {
    error = Launch(stream, WeighKernel, parts, kPartThreads, 0, args);
  }
  if (error != cudaSuccess) return error;
  return Launch(stream, ChooseKernel, dim3(rows), kRowThreads, sizeof(SamplerSpace), args);
}

}  // namespace erne::cuda
