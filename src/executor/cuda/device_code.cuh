// The few instructions that the kernels are made of.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "executor/cuda/layout.h"

namespace erne::cuda {

inline constexpr unsigned kFullWarp = 0xFFFFFFFFU;

// Programmatic dependent launch (compute capability 9.0 on): the kernel behind this one may start
// now, and prefetch what no kernel writes (weights); it must wait before it touches anything else.
// Every block of every kernel waits, also one that has nothing to do: a kernel that ends early
// would let those behind it run ahead of those before it.
__device__ inline void TriggerDependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ inline void WaitForPrevious() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Towards the caches; any address is allowed.
__device__ inline void Prefetch(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// 16 bytes from global to shared memory, past the registers.
__device__ inline void CopyAsync16(void* shared, const void* global) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// c += a b of 16 x 16 and 16 x 8, float32 sums.
template <WeightKind kKind>
__device__ inline void Mma(float (&c)[4], const uint4& a, uint32_t b0, uint32_t b1) {
  if constexpr (kKind == WeightKind::kBF16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  }
}

constexpr float kLargestF16 = 65504;

__device__ inline uint16_t Bf16Bits(float value) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
// Saturates; a NaN stays one.
__device__ inline uint16_t F16Bits(float value) {
  const float low = value < -kLargestF16 ? -kLargestF16 : value;
  return __half_as_ushort(__float2half_rn(low > kLargestF16 ? kLargestF16 : low));
}
__device__ inline uint16_t NarrowBits(bool bf16, float value) {
  return bf16 ? Bf16Bits(value) : F16Bits(value);
}
template <bool kBf16>
__device__ inline uint32_t PackPair(float low, float high) {
  return NarrowBits(kBf16, low) | static_cast<uint32_t>(NarrowBits(kBf16, high)) << 16;
}

__device__ inline void StoreActivation(ActivationType type, void* out, int64_t index, float value) {
  if (type == ActivationType::kF32) {
    static_cast<float*>(out)[index] = value;
  } else {
    static_cast<uint16_t*>(out)[index] = NarrowBits(type == ActivationType::kBF16, value);
  }
}

// The sum over a warp, the same in every lane: a tree, always the same one.
__device__ inline float WarpSum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kFullWarp, value, offset);
  }
  return value;
}
__device__ inline float WarpMax(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, offset));
  }
  return value;
}

// 1 / sqrt(mean(x^2) + eps) by one warp. x: [width], width a multiple of 4
__device__ inline float RmsScale(const float* x, int width, float eps, int lane) {
  float sum = 0;
#pragma unroll 8
  for (int i = lane * 4; i < width; i += 128) {
    const float4 v = *reinterpret_cast<const float4*>(x + i);
    sum = fmaf(v.x, v.x, sum);
    sum = fmaf(v.y, v.y, sum);
    sum = fmaf(v.z, v.z, sum);
    sum = fmaf(v.w, v.w, sum);
  }
  return 1.0F / sqrtf(WarpSum(sum) / static_cast<float>(width) + eps);
}

// The fast exponential and division: a few units in the last place, and -0 for very negative x.
__device__ inline float Silu(float x) { return __fdividef(x, 1.0F + __expf(-x)); }

// The two halves of a rope pair (executor/rope.h).
__device__ inline float2 Rotate(float first, float second, float2 cos_sin) {
  return {fmaf(first, cos_sin.x, -(second * cos_sin.y)),
          fmaf(second, cos_sin.x, first * cos_sin.y)};
}

}  // namespace erne::cuda
