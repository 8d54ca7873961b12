// The parts around the kernels: choice of an instruction set, memory, packing, expert groups.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/thread_pool.h"
#include "executor/cpu/dispatch.h"
#include "executor/cpu/expert_groups.h"
#include "executor/cpu/memory.h"
#include "executor/cpu/packed_matrix.h"

namespace erne::cpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sets ERNE_CPU_ISA for one test.
class ScopedIsa {
 public:
  explicit ScopedIsa(const char* value) {
    if (const char* old = std::getenv("ERNE_CPU_ISA"); old != nullptr) old_ = old;
    ::setenv("ERNE_CPU_ISA", value, 1);
  }
  ~ScopedIsa() {
    if (old_.empty()) {
      ::unsetenv("ERNE_CPU_ISA");
    } else {
      ::setenv("ERNE_CPU_ISA", old_.c_str(), 1);
    }
  }

 private:
  std::string old_;
};

TEST(Dispatch, TakesTheNamedSet) {
  EXPECT_STREQ(SelectKernels("scalar").value()->name, "scalar");
  for (const Kernels* kernels : SupportedKernels())
    EXPECT_EQ(SelectKernels(kernels->name).value(), kernels);
}

TEST(Dispatch, ReadsTheEnvironment) {
  const ScopedIsa isa("scalar");
  EXPECT_STREQ(SelectKernels("").value()->name, "scalar");
  const std::string best = SupportedKernels().back()->name;
  EXPECT_EQ(SelectKernels(best).value()->name, best) << "an option comes before the environment";
}

TEST(Dispatch, TakesTheBestSet) {
  const ScopedIsa isa("");
  EXPECT_EQ(SelectKernels("").value(), SupportedKernels().back());
}

TEST(Dispatch, RefusesAnUnknownSet) {
  const auto option = SelectKernels("neon");
  ASSERT_FALSE(option.ok());
  EXPECT_EQ(option.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(option.status().message(), HasSubstr("\"neon\""));
  const ScopedIsa isa("sse9");
  const auto environment = SelectKernels("");
  ASSERT_FALSE(environment.ok());
  EXPECT_THAT(environment.status().message(), HasSubstr("ERNE_CPU_ISA is \"sse9\""));
}

TEST(Memory, ChecksProducts) {
  EXPECT_EQ(CheckedProduct({3, 4, 5}), 60);
  EXPECT_EQ(CheckedProduct({int64_t{1} << 40, 0, int64_t{1} << 40}), 0);
  EXPECT_FALSE(CheckedProduct({int64_t{1} << 40, int64_t{1} << 40}).has_value());
  EXPECT_FALSE(CheckedProduct({5, -1}).has_value());
}

TEST(Memory, FillsArraysWithNan) {
  Workspace workspace;
  float* floats = nullptr;
  int32_t* ints = nullptr;
  workspace.Add(&floats, {3, 5});
  workspace.Add(&ints, {7});
  ASSERT_TRUE(workspace.Allocate("test").ok());
  for (int i = 0; i < 15; ++i) EXPECT_NE(floats[i], floats[i]);
  EXPECT_EQ(ints[6], -1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(floats) % 64, 0U);
  EXPECT_GE(workspace.bytes(), 15 * sizeof(float) + 7 * sizeof(int32_t));
}

// Whether the system has given every page of [data, data + bytes).
bool ArePresent(std::byte* data, int64_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present((static_cast<size_t>(bytes) + page - 1) / page);
  EXPECT_EQ(::mincore(data, static_cast<size_t>(bytes), present.data()), 0);
  return std::all_of(present.begin(), present.end(), [](unsigned char in) { return in & 1; });
}

TEST(Memory, TakesEveryPageAndReportsIt) {
  Workspace workspace;
  std::byte* large = nullptr;
  float* small = nullptr;
  constexpr int64_t kBytes = (int64_t{150} << 20) + 12345;  // several reports, no whole piece
  workspace.Add(&large, {kBytes});
  workspace.Add(&small, {100});
  ASSERT_TRUE(workspace.Allocate("test", Workspace::Start::kUntouched).ok());
  large[0] = std::byte(7);
  small[0] = 7;
  std::vector<double> progress;
  ThreadPool pool(3);
  EXPECT_FALSE(workspace.has_all_pages());
  workspace.TakePages(pool, 1000, [&](double done) { progress.push_back(done); });
  EXPECT_TRUE(workspace.has_all_pages());
  EXPECT_GE(progress.size(), 3U);
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_EQ(progress.back(), 1.0);
  EXPECT_EQ(large[0], std::byte(7));
  EXPECT_EQ(small[0], 7);
  EXPECT_TRUE(ArePresent(large, kBytes));
}

TEST(Memory, FinishesPagesWhileTheyAreUsed) {
  Workspace workspace;
  std::byte* array = nullptr;
  constexpr int64_t kBytes = int64_t{200} << 20;
  workspace.Add(&array, {kBytes});
  ASSERT_TRUE(workspace.Allocate("test", Workspace::Start::kUntouched).ok());
  ThreadPool pool(2);
  workspace.TakePages(pool, 0);  // the first piece, or all where the rest could not follow
  const std::atomic<bool> stop{false};
  std::thread finisher([&] { workspace.FinishPages(stop); });
  for (int64_t i = 0; i < kBytes; i += 4096) array[i] = static_cast<std::byte>(i >> 12);
  finisher.join();
  EXPECT_TRUE(workspace.has_all_pages());
  EXPECT_TRUE(ArePresent(array, kBytes));
  for (int64_t i = 0; i < kBytes; i += 4096) {
    ASSERT_EQ(array[i], static_cast<std::byte>(i >> 12)) << "a write was lost";
  }
}

TEST(Memory, APageTakerMayEndEarly) {
  Workspace workspace;
  std::byte* array = nullptr;
  workspace.Add(&array, {int64_t{256} << 20});
  ASSERT_TRUE(workspace.Allocate("test", Workspace::Start::kUntouched).ok());
  PageTaker taker;
  taker.Start(workspace);
}

TEST(Memory, NamesWhatDoesNotFit) {
  for (const int64_t count : {int64_t{1} << 45, int64_t{1} << 60}) {
    Workspace workspace;
    double* array = nullptr;
    workspace.Add(&array, {count, 4});
    const Status status = workspace.Allocate("the test's array");
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(), HasSubstr("the test's array"));
    EXPECT_THAT(status.message(), HasSubstr("bytes"));
    EXPECT_EQ(array, nullptr);
  }
}

TEST(ExpertGroups, SortsRowsByExpert) {
  const std::vector<int32_t> ids = {2, 0, 3, 2, 0, 2};  // 3 rows, 2 experts each
  std::vector<int32_t> begin(5);
  std::vector<int32_t> rows(6);
  std::vector<int32_t> slots(6);
  GroupByExpert(ids, 2, begin, rows, slots);
  EXPECT_THAT(begin, ElementsAre(0, 2, 2, 5, 6));
  EXPECT_THAT(rows, ElementsAre(0, 2, 0, 1, 2, 1));
  EXPECT_THAT(slots, ElementsAre(2, 0, 5, 3, 1, 4));
}

LinearWeights View(DType dtype, Shape shape, const void* data) {
  LinearWeights weights;
  weights.matrix = TensorView{dtype, std::move(shape), static_cast<const std::byte*>(data)};
  return weights;
}

TEST(PackedMatrix, GivesItsRowsBack) {
  std::mt19937 random(5);
  Arena arena;
  ThreadPool pool(2);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const int64_t rows = 37;
    const int64_t cols = 131;
    std::vector<std::byte> bytes(static_cast<size_t>(rows * cols) * DTypeSize(dtype));
    for (int64_t i = 0; i < rows * cols; ++i) {
      const float value = std::uniform_real_distribution<float>(-2, 2)(random);
      const uint16_t half = dtype == DType::kBF16 ? FloatToBf16(value) : FloatToF16(value);
      std::memcpy(bytes.data() + static_cast<size_t>(i) * DTypeSize(dtype),
                  dtype == DType::kF32 ? static_cast<const void*>(&value) : &half,
                  DTypeSize(dtype));
    }
    const LinearWeights weights = View(dtype, {rows, cols}, bytes.data());
    const PackedMatrix packed = PackedMatrix::Pack("w", weights, rows, cols, arena, pool).value();
    // No more than padding to whole panels and pairs.
    EXPECT_LE(packed.bytes(), 3 * 16 * 132 * DTypeSize(dtype) + 64);
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<float> expected(static_cast<size_t>(cols));
      std::vector<float> got(static_cast<size_t>(cols));
      CopyToFloat(std::get<TensorView>(weights.matrix), row * cols, expected);
      packed.CopyRow(row, got.data());
      ASSERT_EQ(got, expected);
    }
  }
}

TEST(PackedMatrix, RefusesWhatDoesNotFit) {
  Arena arena;
  ThreadPool pool(1);
  const std::vector<float> data(64);
  const auto message = [&](const LinearWeights& weights, int64_t rows, int64_t cols) {
    const auto packed = PackedMatrix::Pack("layer 3 q", weights, rows, cols, arena, pool);
    EXPECT_FALSE(packed.ok());
    EXPECT_EQ(packed.status().code(), StatusCode::kInvalidArgument);
    return packed.status().message();
  };
  EXPECT_THAT(message({}, 4, 8), HasSubstr("layer 3 q: the weights are absent"));
  EXPECT_THAT(message(View(DType::kF32, {4, 8}, data.data()), 8, 4),
              HasSubstr("[4, 8], not [8, 4]"));
  EXPECT_THAT(message(View(DType::kI32, {4, 8}, data.data()), 4, 8), HasSubstr("type I32"));
  LinearWeights biased = View(DType::kF32, {4, 8}, data.data());
  biased.bias = TensorView{DType::kF32, {5}, reinterpret_cast<const std::byte*>(data.data())};
  EXPECT_THAT(message(biased, 4, 8), HasSubstr("bias"));

  Int4Matrix q4{.rows = 4,
                .cols = 8,
                .group = 4,
                .q = std::vector<uint8_t>(16),
                .scales = std::vector<float>(8),
                .zeros = std::vector<uint8_t>(8),
                .input_order = {}};
  LinearWeights weights;
  weights.matrix = q4;
  EXPECT_TRUE(PackedMatrix::Pack("w", weights, 4, 8, arena, pool).ok());
  const auto broken = [&](auto change) {
    Int4Matrix copy = q4;
    change(copy);
    weights.matrix = copy;
    return message(weights, 4, 8);
  };
  EXPECT_THAT(broken([](Int4Matrix& m) { m.group = 3; }), HasSubstr("groups of 3"));
  EXPECT_THAT(broken([](Int4Matrix& m) { m.group = 0; }), HasSubstr("groups of 0"));
  EXPECT_THAT(broken([](Int4Matrix& m) { m.q.pop_back(); }), HasSubstr("4-bit arrays"));
  EXPECT_THAT(broken([](Int4Matrix& m) { m.input_order = {0, 1}; }),
              HasSubstr("input order has 2"));
  EXPECT_THAT(broken([](Int4Matrix& m) { m.input_order = {0, 1, 2, 3, 4, 5, 6, 8}; }),
              HasSubstr("column 8"));
}

}  // namespace
}  // namespace erne::cpu
