// Every kernel of every instruction set that this CPU has, against naive sums in double, with
// derived bounds; and the rules of arithmetic: a result does not depend on the rows beside it, and
// AVX2 and AVX-512 agree bit for bit.
#include "executor/cpu/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "executor/cpu/activation_form.h"
#include "executor/cpu/dispatch.h"
#include "executor/cpu/kernels_test_util.h"
#include "executor/cpu/memory.h"
#include "executor/cpu/packed_matrix.h"

namespace erne::cpu {
namespace {

INSTANTIATE_TEST_SUITE_P(Isa, KernelsTest, testing::ValuesIn(AllKernels()), KernelName);

// Types of weights and activations that there is a product for.
struct Types {
  WeightType weights;
  ActivationType activations;
};
constexpr Types kTypes[] = {
    {WeightType::kF32, ActivationType::kF32},   {WeightType::kBF16, ActivationType::kF32},
    {WeightType::kF16, ActivationType::kF32},   {WeightType::kInt8, ActivationType::kF32},
    {WeightType::kInt4, ActivationType::kF32},  {WeightType::kBF16, ActivationType::kBF16},
    {WeightType::kInt8, ActivationType::kInt8}, {WeightType::kInt4, ActivationType::kInt8}};

std::string TypeName(const Types& types) {
  return StrCat("weights ", static_cast<int>(types.weights), " activations ",
                static_cast<int>(types.activations));
}

// What a test matrix is, and what packing made of it.
struct TestMatrix {
  std::vector<std::byte> bytes;
  std::vector<float> bias;
  LinearWeights weights;
  Arena memory;
  PackedMatrix packed;
  int64_t rows = 0;
  int64_t cols = 0;

  // W[r][c] exactly, and the largest magnitude that its product with x can pass through on the way.
  double Value(int64_t r, int64_t c) const { return Integer(r, c) * Scale(r, c); }
  double Magnitude(int64_t r, int64_t c) const {
    const auto* q4 = std::get_if<Int4Matrix>(&weights.matrix);
    if (q4 == nullptr) return std::abs(Value(r, c));
    const size_t g = static_cast<size_t>(r * (cols / q4->group) + c / q4->group);
    return (std::abs(Nibble(*q4, r, c) - 8) + std::abs(8 - q4->zeros[g])) *
           std::abs(static_cast<double>(q4->scales[g]));
  }
  // Value as a number of steps and the size of one: floats are one step.
  double Integer(int64_t r, int64_t c) const {
    if (const auto* q8 = std::get_if<Int8Matrix>(&weights.matrix))
      return q8->q[static_cast<size_t>(r * cols + c)];
    if (const auto* q4 = std::get_if<Int4Matrix>(&weights.matrix)) {
      const size_t g = static_cast<size_t>(r * (cols / q4->group) + c / q4->group);
      return Nibble(*q4, r, c) - q4->zeros[g];
    }
    float value;
    CopyToFloat(std::get<TensorView>(weights.matrix), r * cols + c, {&value, 1});
    return value;
  }
  double Scale(int64_t r, int64_t c) const {
    if (const auto* q8 = std::get_if<Int8Matrix>(&weights.matrix))
      return q8->scales[static_cast<size_t>(r * q8->groups() + c / q8->group)];
    if (const auto* q4 = std::get_if<Int4Matrix>(&weights.matrix))
      return q4->scales[static_cast<size_t>(r * (cols / q4->group) + c / q4->group)];
    return 1;
  }
  // The input that stored column c multiplies.
  int64_t Input(int64_t c) const {
    const auto* q4 = std::get_if<Int4Matrix>(&weights.matrix);
    return q4 == nullptr || q4->input_order.empty() ? c : q4->input_order[static_cast<size_t>(c)];
  }
  static int Nibble(const Int4Matrix& q4, int64_t r, int64_t c) {
    return q4.q[static_cast<size_t>(r * (q4.cols / 2) + c / 2)] >> (c % 2 * 4) & 15;
  }
};

class GemmTest : public KernelsTest {
 protected:
  void MakeMatrix(TestMatrix& m, Types types, int64_t rows, int64_t cols, int64_t group, bool order,
                  bool bias) {
    const WeightType type = types.weights;
    m.rows = rows;
    m.cols = cols;
    if (type == WeightType::kInt8) {
      Int8Matrix q8;
      q8.rows = rows;
      q8.cols = cols;
      q8.group = group;
      for (int64_t i = 0; i < rows * cols; ++i) q8.q.push_back(static_cast<int8_t>(Int(-127, 127)));
      for (int64_t i = 0; i < rows * q8.groups(); ++i) q8.scales.push_back(Uniform(0.001F, 0.01F));
      m.weights.matrix = std::move(q8);
    } else if (type == WeightType::kInt4) {
      Int4Matrix q4;
      q4.rows = rows;
      q4.cols = cols;
      q4.group = group;
      for (int64_t i = 0; i < rows * cols / 2; ++i)
        q4.q.push_back(static_cast<uint8_t>(Int(0, 255)));
      for (int64_t i = 0; i < rows * cols / group; ++i) {
        q4.scales.push_back(Uniform(0.01F, 0.1F));
        q4.zeros.push_back(static_cast<uint8_t>(Int(0, 15)));
      }
      if (order) {
        for (int64_t c = 0; c < cols; ++c) q4.input_order.push_back(static_cast<int32_t>(c));
        std::shuffle(q4.input_order.begin(), q4.input_order.end(), random_);
      }
      m.weights.matrix = std::move(q4);
    } else {
      TensorView view;
      view.dtype = type == WeightType::kF32    ? DType::kF32
                   : type == WeightType::kBF16 ? DType::kBF16
                                               : DType::kF16;
      view.shape = {rows, cols};
      const size_t size = DTypeSize(view.dtype);
      m.bytes.resize(1 + static_cast<size_t>(rows * cols) * size);
      view.data = m.bytes.data() + 1;  // checkpoints promise no alignment
      for (int64_t i = 0; i < rows * cols; ++i) {
        const float value = Uniform();
        const uint16_t half = type == WeightType::kBF16 ? FloatToBf16(value) : FloatToF16(value);
        std::memcpy(m.bytes.data() + 1 + static_cast<size_t>(i) * size,
                    size == 4 ? static_cast<const void*>(&value) : &half, size);
      }
      m.weights.matrix = view;
    }
    if (bias) {
      m.bias = Floats(rows);
      m.weights.bias =
          TensorView{DType::kF32, {rows}, reinterpret_cast<const std::byte*>(m.bias.data())};
    }
    ThreadPool pool(1);
    PackOptions options;
    options.for_bf16 = options.for_integers = types.activations;
    m.packed = PackedMatrix::Pack("test", m.weights, rows, cols, m.memory, pool, options).value();
  }

  // Rows of x as `m` reads them, in `bytes`; poisoned first.
  Activations Prepare(const TestMatrix& m, const std::vector<float>& x, int64_t x_stride,
                      int64_t rows, const int32_t* x_rows, std::vector<unsigned char>& bytes) {
    std::vector<float> ordered(static_cast<size_t>(m.cols));
    PrepareTask task;
    task.matrix = &m.packed.ref();
    task.x = x.data();
    task.x_stride = x_stride;
    task.x_rows = x_rows;
    task.row_end = rows;
    task.ordered = ordered.data();
    task.form = FormOf(m.packed.ref(), kernels_.bf16_products);
    bytes.assign(static_cast<size_t>(rows * task.form.stride), 0xFF);
    task.out = bytes.data();
    kernels_.prepare(task);
    task.form.data = bytes.data();
    return task.form;
  }

  // Poisoned.
  const GemmScratch& Scratch() {
    workspace_ = Workspace();
    workspace_.Add(&scratch_.tile, {2, kRowGroup, kTileWidth});
    workspace_.Add(&scratch_.bytes, {kTilePanels, kUnpackBytes});
    EXPECT_TRUE(workspace_.Allocate("test").ok());
    return scratch_;
  }

  // All panels of `m` (and of `up`) for rows of x; y has NaN around what may be written.
  std::vector<float> Run(Epilogue epilogue, const TestMatrix& m, const TestMatrix* up,
                         const std::vector<float>& x, int64_t x_stride, int64_t rows,
                         const int32_t* x_rows, std::vector<float> y) {
    std::vector<unsigned char> bytes;
    std::vector<unsigned char> up_bytes;
    GemmTask task;
    task.epilogue = epilogue;
    task.matrix = &m.packed.ref();
    task.up = up == nullptr ? nullptr : &up->packed.ref();
    task.panel_end = m.packed.panels();
    task.rows = rows;
    task.x = Prepare(m, x, x_stride, rows, x_rows, bytes);
    if (up != nullptr) {
      task.up_x = SameActivations(m.packed.ref(), up->packed.ref())
                      ? task.x
                      : Prepare(*up, x, x_stride, rows, x_rows, up_bytes);
    }
    task.y = y.data();
    task.y_stride = m.rows + kGap;
    task.scratch = &Scratch();
    kernels_.gemm(task);
    return y;
  }

  // W x + b of one row and the bound of its error.
  //
  // A float product is one chain of `cols` (fused) multiply-adds: |error| <= g(cols) sum |w x|,
  // where g(n) = n u / (1 - n u) < 1.01 n u (Higham, Accuracy and Stability, 3.1), twice that where
  // product and sum round apart. For 4 bits, a group is such a chain over x (q - 8), plus (8 -
  // zero) times a sum of at most group roundings, times the scale: everything passes through at
  // most cols + 4 + groups roundings of what Magnitude adds up. Bias and epilogue add 2 more.
  //
  // bf16 activations are rounded first; VDPBF16PS adds products one after the other as well, each
  // rounded (and takes subnormal numbers for 0, which our values are far from), and TDPBF16PS adds
  // two chains of a step before they join the total, which is no more roundings for any product.
  // int8 activations
  // are rounded first, too; the integer sums are exact, and what is left are the roundings of the
  // groups.
  struct Expected {
    double value, bound;
  };
  Expected Naive(const TestMatrix& m, const float* x, int64_t output) const {
    const ActivationType type = m.packed.ref().activation;
    const int64_t group = type == ActivationType::kInt8 ? m.packed.ref().group : 1;
    double sum = 0;
    double magnitude = 0;
    for (int64_t begin = 0; begin < m.cols; begin += group) {
      const int64_t end = std::min(m.cols, begin + group);
      float largest = 0;
      for (int64_t c = begin; c < end; ++c) largest = std::max(largest, std::abs(x[m.Input(c)]));
      for (int64_t c = begin; c < end; ++c) {
        double value = x[m.Input(c)];
        if (type == ActivationType::kBF16) value = Bf16ToFloat(FloatToBf16(x[m.Input(c)]));
        if (type == ActivationType::kInt8)
          value = std::nearbyintf(x[m.Input(c)] * (127 / largest)) * (largest / 127);
        sum += m.Value(output, c) * value;
        magnitude += m.Magnitude(output, c) * std::abs(value);
      }
    }
    if (!m.bias.empty()) {
      sum += m.bias[static_cast<size_t>(output)];
      magnitude += std::abs(m.bias[static_cast<size_t>(output)]);
    }
    return {sum, 2.02 * static_cast<double>(2 * m.cols + 6) * kUlp * magnitude};
  }

  static constexpr int64_t kGap = 3;  // floats between the rows of y

  Workspace workspace_;
  GemmScratch scratch_;
};

INSTANTIATE_TEST_SUITE_P(Isa, GemmTest, testing::ValuesIn(AllKernels()), KernelName);

constexpr int64_t kRowCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 48, 49, 101};

struct Shape2 {
  int64_t outputs, cols, group;
};

TEST_P(GemmTest, MatchesANaiveProduct) {
  for (const Types type : kTypes) {
    for (int i = 0; i < 26; ++i) {
      const int64_t group = 2 * Int(1, 40);
      const int64_t cols = type.weights == WeightType::kInt4 ? group * Int(1, i % 5 == 0 ? 20 : 4)
                                                             : Int(2, i % 5 == 0 ? 1300 : 300);
      const int64_t outputs = Int(1, 150);
      const int64_t rows = kRowCounts[static_cast<size_t>(i) % std::size(kRowCounts)];
      TestMatrix m;
      MakeMatrix(m, type, outputs, cols, group, i % 2 == 1, i % 3 == 0);
      const int64_t stride = cols + 5;
      std::vector<float> x = Floats(rows * stride);
      for (int64_t r = 0; r < rows; ++r) std::fill_n(x.begin() + r * stride + cols, 5, kQuietNan);
      const Epilogue epilogue = i % 4 == 3 ? Epilogue::kAdd : Epilogue::kStore;
      std::vector<float> before(static_cast<size_t>(rows * (outputs + kGap)), kQuietNan);
      if (epilogue == Epilogue::kAdd) {
        for (int64_t r = 0; r < rows; ++r)
          std::fill_n(before.begin() + r * (outputs + kGap), outputs, 0.5F);
      }
      const std::vector<float> y = Run(epilogue, m, nullptr, x, stride, rows, nullptr, before);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t o = 0; o < outputs + kGap; ++o) {
          const float got = y[static_cast<size_t>(r * (outputs + kGap) + o)];
          if (o >= outputs) {
            ASSERT_TRUE(std::isnan(got)) << "written past output " << outputs;
            continue;
          }
          const Expected expected = Naive(m, x.data() + r * stride, o);
          const double added = epilogue == Epilogue::kAdd ? 0.5 : 0;
          ASSERT_NEAR(got, expected.value + added, expected.bound + kUlp * (added + std::abs(got)))
              << TypeName(type) << " [" << outputs << ", " << cols << "] group " << group << " row "
              << r << " of " << rows << " output " << o;
        }
      }
    }
  }
}

TEST_P(GemmTest, MultipliesTheGateIntoUp) {
  for (const Types type : kTypes) {
    for (int i = 0; i < 8; ++i) {
      const int64_t group = 32;
      const int64_t cols = group * Int(1, 6);
      const int64_t outputs = Int(1, 100);
      const int64_t rows = kRowCounts[static_cast<size_t>(i)];
      TestMatrix gate;
      TestMatrix up;
      // With an order each, which two matrices do not share, and without.
      MakeMatrix(gate, type, outputs, cols, group, i % 2 == 1, i % 3 == 0);
      MakeMatrix(up, i == 5 ? kTypes[0] : type, outputs, cols, group, i % 2 == 1, i % 3 == 0);
      const std::vector<float> x = Floats(rows * cols);
      const std::vector<float> before(static_cast<size_t>(rows * (outputs + kGap)), kQuietNan);
      const std::vector<float> y =
          Run(Epilogue::kSwiGlu, gate, &up, x, cols, rows, nullptr, before);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t o = 0; o < outputs; ++o) {
          const Expected g = Naive(gate, x.data() + r * cols, o);
          const Expected u = Naive(up, x.data() + r * cols, o);
          const double silu = g.value / (1 + std::exp(-g.value));
          // |silu'| < 1.1; the exponential, the sum, the quotient and the product err by less than
          // 8 roundings.
          const double bound = 1.1 * g.bound * (std::abs(u.value) + u.bound) +
                               (std::abs(silu) + g.bound) * u.bound +
                               8 * kUlp * std::abs(silu * u.value);
          ASSERT_NEAR(y[static_cast<size_t>(r * (outputs + kGap) + o)], silu * u.value, bound)
              << TypeName(type) << " row " << r << " output " << o;
        }
      }
    }
  }
}

// The promise that everything rests on: a row gives the same bits alone and among others, wherever
// it stands.
TEST_P(GemmTest, ARowDoesNotDependOnTheOthers) {
  for (const Types type : kTypes) {
    for (const Shape2 shape : {Shape2{79, 192, 64}, Shape2{33, 640, 128}, Shape2{130, 1216, 32}}) {
      TestMatrix m;
      MakeMatrix(m, type, shape.outputs, shape.cols, shape.group, true, true);
      const int64_t stride = shape.cols;
      const int64_t all = 101;
      const std::vector<float> x = Floats(all * stride);
      const auto width = static_cast<size_t>(shape.outputs + kGap);
      const std::vector<float> alone_before(width, kQuietNan);
      std::vector<float> alone;
      for (int32_t r = 0; r < all; ++r) {
        const std::vector<float> row =
            Run(Epilogue::kStore, m, nullptr, x, stride, 1, &r, alone_before);
        alone.insert(alone.end(), row.begin(), row.end());
      }
      for (const int64_t rows : kRowCounts) {
        std::vector<int32_t> pick(static_cast<size_t>(rows));
        for (int32_t& row : pick) row = static_cast<int32_t>(Int(0, all - 1));
        const std::vector<float> y =
            Run(Epilogue::kStore, m, nullptr, x, stride, rows, pick.data(),
                std::vector<float>(static_cast<size_t>(rows) * width, kQuietNan));
        for (size_t r = 0; r < pick.size(); ++r) {
          ASSERT_EQ(
              std::memcmp(y.data() + r * width, alone.data() + static_cast<size_t>(pick[r]) * width,
                          static_cast<size_t>(shape.outputs) * sizeof(float)),
              0)
              << TypeName(type) << ", " << rows << " rows";
        }
      }
    }
  }
}

// A product over some of the panels is that part of the whole.
TEST_P(GemmTest, APanelDoesNotDependOnTheOthers) {
  for (const Types type : kTypes) {
    TestMatrix m;
    MakeMatrix(m, type, 150, 128, 64, false, true);
    const int64_t rows = 7;
    const std::vector<float> x = Floats(rows * 128);
    const std::vector<float> blank(static_cast<size_t>(rows * (150 + kGap)), kQuietNan);
    const std::vector<float> whole =
        Run(Epilogue::kStore, m, nullptr, x, 128, rows, nullptr, blank);
    for (const int64_t step : {kTilePanels, 2 * kTilePanels}) {
      std::vector<float> y = blank;
      std::vector<unsigned char> bytes;
      GemmTask task;
      task.matrix = &m.packed.ref();
      task.rows = rows;
      task.x = Prepare(m, x, 128, rows, nullptr, bytes);
      task.y = y.data();
      task.y_stride = 150 + kGap;
      task.scratch = &Scratch();
      for (task.panel_begin = 0; task.panel_begin < m.packed.panels(); task.panel_begin += step) {
        task.panel_end = std::min(task.panel_begin + step, m.packed.panels());
        kernels_.gemm(task);
      }
      ASSERT_EQ(std::memcmp(y.data(), whole.data(), y.size() * sizeof(float)), 0);
    }
  }
}

TEST_P(KernelsTest, ExpIsAccurate) {
  std::vector<float> x;
  for (int i = 0; i < 400001; ++i) x.push_back(-87.3F + static_cast<float>(i) * (175.6F / 400000));
  std::vector<float> y(x.size());
  kernels_.exp(x.data(), static_cast<int64_t>(x.size()), y.data());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(std::min(x[i], 88.3F)));
    worst = std::max(worst, std::abs(y[i] - exact) / exact);
  }
  // Rounding of r (<= 0.35 u, and n * 2.1e-4 to half an ulp of 0.03), of the polynomial's last
  // steps (two roundings, as |r| <= 0.35) and its remainder: below 4 u.
  EXPECT_LT(worst, 4 * kUlp);
}

TEST_P(KernelsTest, ExpAtTheEdges) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float x[] = {0, -0.0F, -87.31F, -1000, -infinity, kQuietNan, 89, infinity, 1e-30F};
  float y[std::size(x)];
  kernels_.exp(x, std::size(x), y);
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 0);
  EXPECT_EQ(y[4], 0);
  EXPECT_TRUE(std::isnan(y[5]));
  EXPECT_TRUE(std::isfinite(y[6]) && y[6] > 2e38F);
  EXPECT_TRUE(std::isfinite(y[7]) && y[7] > 2e38F);
  EXPECT_EQ(y[8], 1);
}

TEST_P(KernelsTest, ExpDoesNotDependOnTheLane) {
  const std::vector<float> x = Floats(67);
  std::vector<float> together(x.size());
  kernels_.exp(x.data(), 67, together.data());
  for (size_t i = 0; i < x.size(); ++i) {
    float alone;
    kernels_.exp(&x[i], 1, &alone);
    ASSERT_EQ(alone, together[i]) << "lane " << i;
  }
}

TEST_P(KernelsTest, NormsTheRootMeanSquare) {
  for (const int64_t n : {1, 2, 15, 16, 17, 64, 100, 301, 1024}) {
    std::vector<float> x = Floats(n);
    const std::vector<float> weight = Floats(n);
    x.push_back(kQuietNan);
    std::vector<float> y(static_cast<size_t>(n) + 1, kQuietNan);
    kernels_.rms_norm(x.data(), weight.data(), 1e-5F, n, y.data());
    double squares = 0;
    for (int64_t i = 0; i < n; ++i)
      squares += static_cast<double>(x[static_cast<size_t>(i)]) * x[static_cast<size_t>(i)];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5F);
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(i);
      const double expected = x[at] * scale * weight[at];
      // Half of the sum's n / 8 + 6 roundings (a square root halves relative errors), and six more.
      EXPECT_NEAR(y[at], expected, (static_cast<double>(n) / 16 + 12) * kUlp * std::abs(expected))
          << n;
    }
    EXPECT_TRUE(std::isnan(y.back()));
    kernels_.rms_norm(x.data(), weight.data(), 1e-5F, n, x.data());
    EXPECT_TRUE(std::equal(x.begin(), x.end() - 1, y.begin())) << "in place";
  }
}

TEST_P(KernelsTest, CombinesExperts) {
  for (const int64_t n : {1, 16, 37, 128}) {
    const std::vector<float> parts = Floats(5 * n);
    const std::vector<float> shared = Floats(n);
    const std::vector<float> weights = Floats(3);
    const std::vector<int32_t> rows = {4, 0, 2};
    for (const bool with_shared : {false, true}) {
      std::vector<float> x = Floats(n);
      const std::vector<float> before = x;
      kernels_.combine(parts.data(), n, rows.data(), weights.data(), 3,
                       with_shared ? shared.data() : nullptr, n, x.data());
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(i);
        double expected = before[at] + (with_shared ? shared[at] : 0.0F);
        for (size_t j = 0; j < 3; ++j) {
          expected += static_cast<double>(weights[j]) * parts[static_cast<size_t>(rows[j] * n + i)];
        }
        EXPECT_NEAR(x[at], expected, 8 * 5 * kUlp);  // 8 roundings of values below 5
      }
    }
  }
}

// A vector of 16 lanes computes the same on any hardware with fused multiply-adds. bf16 activations
// are the exception: their products are an instruction of some CPUs.
class KernelsAgree : public GemmTest {};
INSTANTIATE_TEST_SUITE_P(Isa, KernelsAgree, testing::ValuesIn(AllKernels()), KernelName);

TEST_P(KernelsAgree, WithAvx2BitForBit) {
  const std::vector<const Kernels*> supported = SupportedKernels();
  if (supported.size() < 2 || &kernels_ == supported[0]) GTEST_SKIP() << "no fused multiply-adds";
  const Kernels& avx2 = *supported[1];
  const std::vector<float> x = Floats(48 * 256);
  const auto same = [](const std::vector<float>& p, const std::vector<float>& q) {
    return std::memcmp(p.data(), q.data(), p.size() * sizeof(float)) == 0;
  };
  std::vector<float> ours(x.size());
  std::vector<float> theirs(x.size());
  kernels_.exp(x.data(), static_cast<int64_t>(x.size()), ours.data());
  avx2.exp(x.data(), static_cast<int64_t>(x.size()), theirs.data());
  EXPECT_TRUE(same(ours, theirs));
  kernels_.rms_norm(x.data(), x.data() + 300, 1e-6F, 300, ours.data());
  avx2.rms_norm(x.data(), x.data() + 300, 1e-6F, 300, theirs.data());
  EXPECT_TRUE(same(ours, theirs));
  for (const Types type : kTypes) {
    if (type.activations == ActivationType::kBF16) continue;
    TestMatrix m;
    MakeMatrix(m, type, 100, 256, 32, false, false);
    std::vector<unsigned char> bytes;
    GemmTask task;
    task.epilogue = Epilogue::kSwiGlu;
    task.matrix = task.up = &m.packed.ref();
    task.panel_end = m.packed.panels();
    task.rows = 11;
    task.x = task.up_x = Prepare(m, x, 256, 11, nullptr, bytes);
    task.y_stride = 100;
    task.scratch = &Scratch();
    task.y = ours.data();
    kernels_.gemm(task);
    task.y = theirs.data();
    avx2.gemm(task);
    EXPECT_TRUE(same(ours, theirs)) << TypeName(type);
  }
}

}  // namespace
}  // namespace erne::cpu
