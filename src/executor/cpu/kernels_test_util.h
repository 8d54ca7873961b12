// What the tests of the kernels share: one test for each instruction set that this CPU has.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/dispatch.h"
#include "executor/cpu/kernels.h"

namespace erne::cpu {

inline constexpr float kQuietNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr double kUlp = 0x1p-24;  // relative error of one float32 rounding

inline std::vector<const Kernels*> AllKernels() { return SupportedKernels(); }
inline std::string KernelName(const testing::TestParamInfo<const Kernels*>& info) {
  return info.param->name;
}

class KernelsTest : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels_ = *GetParam();
  std::mt19937 random_{7};

  float Uniform(float low = -1, float high = 1) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }
  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  std::vector<float> Floats(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = Uniform();
    return values;
  }
};

}  // namespace erne::cpu
