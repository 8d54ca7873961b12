// The attention kernels of every instruction set over every type of keys and values: how these are
// stored, against naive sums in double over what the cache holds of them, and the rules of
// arithmetic.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/dispatch.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/kernels_test_util.h"
#include "executor/cpu/memory.h"
#include "executor/kv_storage.h"
#include "tensor/dtype.h"

namespace erne::cpu {
namespace {

constexpr KvDType kKvDTypes[] = {KvDType::kF32, KvDType::kBF16, KvDType::kF16, KvDType::kInt8};

// One position's k, with what is hard to round, at an offset of an untouched block.
class KvStoreTest : public KernelsTest {
 protected:
  std::vector<float> HardFloats(int64_t count) {
    const float hard[] = {
        0,        -0.0F, 1 + 0x1p-8F, 1 + 0x3p-8F, 1 + 0x1p-11F, 1 + 0x3p-11F,   0x1.8p-24F,
        0x1p-25F, 65519, -65520,      3e38F,       1e-40F,       0x1.FFFFFEp-15F};
    std::vector<float> x = Floats(count);
    for (float& value : x) {
      if (Int(0, 2) == 0) value = hard[Int(0, std::size(hard) - 1)];
    }
    return x;
  }

  static std::vector<unsigned char> Store(const Kernels& kernels, KvDType dtype,
                                          const std::vector<float>& k, const std::vector<float>& v,
                                          int64_t offset) {
    const auto head_dim = static_cast<int64_t>(k.size());
    std::vector<unsigned char> block(static_cast<size_t>(KvHeadBlockBytes(head_dim, dtype)), 0xAA);
    KvStoreTask task;
    task.dtype = dtype;
    task.head_dim = head_dim;
    task.k = k.data();
    task.v = v.data();
    task.block = block.data();
    task.offset = offset;
    kernels.store_kv(task);
    return block;
  }

  // Byte at which element `input`, `lane` of the panels that begin at `panels` lies: kernels.h.
  static size_t Place(KvDType dtype, int64_t panels, int64_t input, int64_t lane) {
    switch (dtype) {
      case KvDType::kF32:
        return static_cast<size_t>(panels + (input * 16 + lane) * 4);
      case KvDType::kBF16:
        return static_cast<size_t>(panels + ((input / 2 * 16 + lane) * 2 + input % 2) * 2);
      case KvDType::kF16:
        return static_cast<size_t>(panels + (input * 16 + lane) * 2);
      case KvDType::kInt8:
        return static_cast<size_t>(panels + input * 16 + lane);
    }
    return 0;
  }

  static float Load(KvDType dtype, const unsigned char* at, float scale) {
    float value = 0;
    uint16_t half = 0;
    std::memcpy(&half, at, dtype == KvDType::kInt8 ? 1 : 2);
    switch (dtype) {
      case KvDType::kF32:
        std::memcpy(&value, at, 4);
        return value;
      case KvDType::kBF16:
        return Bf16ToFloat(half);
      case KvDType::kF16:
        return F16ToFloat(half);
      case KvDType::kInt8:
        return static_cast<float>(static_cast<int8_t>(half)) * scale;
    }
    return value;
  }
};

INSTANTIATE_TEST_SUITE_P(Isa, KvStoreTest, testing::ValuesIn(AllKernels()), KernelName);

TEST_P(KvStoreTest, RoundsAndPlacesWhatItIsGiven) {
  for (const KvDType dtype : kKvDTypes) {
    for (const int64_t dim : {2, 6, 16, 20, 64, 128}) {
      for (const int64_t offset : {0, 1, 7, 15}) {
        const std::vector<float> k = HardFloats(dim);
        const std::vector<float> v = HardFloats(dim);
        const std::vector<unsigned char> block = Store(kernels_, dtype, k, v, offset);
        std::vector<float> rounded_k = k;
        std::vector<float> rounded_v = v;
        RoundLikeKvCache(dtype, rounded_k);
        RoundLikeKvCache(dtype, rounded_v);
        const int64_t size = dtype == KvDType::kInt8 ? 1 : dtype == KvDType::kF32 ? 4 : 2;
        const int64_t keys = dtype == KvDType::kInt8 ? 128 : 0;
        const int64_t values = keys + dim * 16 * size;
        float scales[2] = {1, 1};
        std::vector<unsigned char> expected(block.size(), 0xAA);
        if (dtype == KvDType::kInt8) {
          for (const int64_t i : {0, 1}) {
            const auto at = static_cast<size_t>(i * 64 + offset * 4);
            std::memcpy(&scales[i], block.data() + at, 4);
            std::memcpy(expected.data() + at, block.data() + at, 4);
          }
        }
        for (int64_t d = 0; d < dim; ++d) {
          const size_t k_at = Place(dtype, keys, d, offset);
          const size_t v_at = Place(dtype, values + d / 16 * 256 * size, offset, d % 16);
          const auto at = static_cast<size_t>(d);
          ASSERT_EQ(Load(dtype, &block[k_at], scales[0]), rounded_k[at])
              << KvDTypeName(dtype) << " " << k[at];
          ASSERT_EQ(Load(dtype, &block[v_at], scales[1]), rounded_v[at])
              << KvDTypeName(dtype) << " " << v[at];
          std::memcpy(&expected[k_at], &block[k_at], static_cast<size_t>(size));
          std::memcpy(&expected[v_at], &block[v_at], static_cast<size_t>(size));
        }
        ASSERT_EQ(block, expected) << "other positions were touched";
      }
    }
  }
}

TEST_P(KvStoreTest, NanStaysNan) {
  for (const KvDType dtype : kKvDTypes) {
    for (const int64_t broken : {0, 17}) {
      std::vector<float> k = Floats(20);
      const std::vector<float> v = Floats(20);
      k[static_cast<size_t>(broken)] = kQuietNan;
      const std::vector<unsigned char> block = Store(kernels_, dtype, k, v, 3);
      const bool int8 = dtype == KvDType::kInt8;
      float scale = 0;
      std::memcpy(&scale, block.data() + 12, 4);
      EXPECT_TRUE(std::isnan(Load(dtype, &block[Place(dtype, int8 ? 128 : 0, broken, 3)], scale)))
          << KvDTypeName(dtype);
    }
  }
}

TEST_P(KvStoreTest, AgreesWithThePortableOneBitForBit) {
  for (const KvDType dtype : kKvDTypes) {
    for (int i = 0; i < 50; ++i) {
      const std::vector<float> k = HardFloats(36);
      const std::vector<float> v = HardFloats(36);
      ASSERT_EQ(Store(kernels_, dtype, k, v, i % 16), Store(scalar::kKernels, dtype, k, v, i % 16));
    }
  }
}

// Attention over a pool in which everything that a row may not see is NaN.
class AttentionTest : public KernelsTest {
 protected:
  struct Case {
    int64_t group, head_dim, position, rows;
  };

  void SetUpCase(const Case& c, KvDType dtype) {
    case_ = c;
    dtype_ = dtype;
    padded_ = RoundUp(c.head_dim, kLanes);
    state_floats_ = padded_ + kStateExtra;
    const int64_t length = c.position + c.rows;
    const int64_t used = (length + kLanes - 1) / kLanes;
    const int64_t num_blocks = used + 3;
    block_stride_ = KvHeadBlockBytes(c.head_dim, dtype) + 64;  // as if another head followed
    pool_.resize(static_cast<size_t>(num_blocks * block_stride_));
    blocks_.resize(static_cast<size_t>(num_blocks));
    for (int64_t b = 0; b < num_blocks; ++b)
      blocks_[static_cast<size_t>(b)] = static_cast<int32_t>(b);
    std::shuffle(blocks_.begin(), blocks_.end(), random_);
    keys_ = Floats(length * c.head_dim);
    values_ = Floats(length * c.head_dim);
    WriteUpTo(length);
    stride_ = c.group * c.head_dim + 7;
    queries_ = Floats(c.rows * stride_);
    for (float& q : queries_) q *= 3 / std::sqrt(static_cast<float>(c.head_dim));
  }

  // The pool holds the positions below `length`; elsewhere all bits are set: NaN in every float
  // type, and so are the scales of int8.
  void WriteUpTo(int64_t length) {
    std::fill(pool_.begin(), pool_.end(), 0xFF);
    KvStoreTask task;
    task.dtype = dtype_;
    task.head_dim = case_.head_dim;
    for (int64_t p = 0; p < length; ++p) {
      task.k = keys_.data() + p * case_.head_dim;
      task.v = values_.data() + p * case_.head_dim;
      task.block = pool_.data() + blocks_[static_cast<size_t>(p / kLanes)] * block_stride_;
      task.offset = p % kLanes;
      kernels_.store_kv(task);
    }
  }

  // Keys and values become what the cache holds of them.
  void RoundKeysAndValues() {
    const auto dim = static_cast<size_t>(case_.head_dim);
    for (std::vector<float>* all : {&keys_, &values_}) {
      for (size_t begin = 0; begin < all->size(); begin += dim) {
        RoundLikeKvCache(dtype_, std::span(*all).subspan(begin, dim));
      }
    }
  }

  // Rows [first, first + rows) of the case in one task, or, when `split`, span by span and merged.
  std::vector<float> Run(int64_t first, int64_t rows, bool split = false) {
    return RunWith(kernels_, first, rows, split);
  }
  std::vector<float> RunWith(const Kernels& kernels, int64_t first, int64_t rows,
                             bool split = false) {
    const int64_t queries = rows * case_.group;
    const int64_t spans = (case_.position + first + rows - 1) / kSpanTokens + 1;
    std::vector<float> out(static_cast<size_t>(rows * stride_), kQuietNan);
    std::vector<float> states(static_cast<size_t>(spans * queries * state_floats_), kQuietNan);
    std::vector<float> span_state(static_cast<size_t>(queries * state_floats_), kQuietNan);
    std::vector<float> scores(static_cast<size_t>(queries * kChunkTokens), kQuietNan);
    std::vector<uint16_t> bf16(static_cast<size_t>(queries * case_.head_dim), 0xFFFF);
    AttentionTask task;
    task.rows = rows;
    task.position = case_.position + first;
    task.group = case_.group;
    task.head_dim = case_.head_dim;
    task.span_end = 1000;
    task.q = queries_.data() + first * stride_;
    task.q_stride = stride_;
    task.kv_dtype = dtype_;
    task.kv = pool_.data();
    task.block_stride = block_stride_;
    task.blocks = blocks_.data();
    task.out = out.data();
    task.out_stride = stride_;
    task.state = states.data();
    task.span_state = span_state.data();
    task.scores = scores.data();
    task.bf16 = bf16.data();
    if (!split) {
      kernels.attention(task);
      return out;
    }
    task.out = nullptr;
    for (int64_t span = spans - 1; span >= 0; --span) {  // in any order
      task.span_begin = span;
      task.span_end = span + 1;
      task.state = states.data() + span * queries * state_floats_;
      kernels.attention(task);
    }
    kernels.attention_merge(states.data(), spans, case_.group, case_.head_dim, out.data());
    return out;
  }

  // Whether queries and weights are rounded for products of bf16 pairs.
  bool AsPairs() const { return kernels_.bf16_products && dtype_ == KvDType::kBF16; }

  void ExpectNaive(const std::vector<float>& out, int64_t row) {
    const int64_t dim = case_.head_dim;
    const int64_t length = case_.position + row + 1;
    for (int64_t head = 0; head < case_.group; ++head) {
      const float* q = queries_.data() + row * stride_ + head * dim;
      std::vector<double> weights;
      double sum = 0;
      double magnitude = 0;
      for (int64_t p = 0; p < length; ++p) {
        double score = 0;
        double terms = 0;
        for (int64_t d = 0; d < dim; ++d) {
          const float query = AsPairs() ? Bf16ToFloat(FloatToBf16(q[d])) : q[d];
          const double term = static_cast<double>(query) * keys_[static_cast<size_t>(p * dim + d)];
          score += term;
          terms += std::abs(term);
        }
        magnitude = std::max(magnitude, terms);
        weights.push_back(std::exp(score));
        sum += weights.back();
      }
      // An error e of a score is a relative error e of its weight, in numerator and denominator: 2
      // (2 dim u) times the score's terms, and as much again for subtracting maxima; weights, their
      // sums and rescales err by a few roundings each, the sum of V over L positions by L; |V|
      // <= 1. The scales of int8 round a score, a weight and (here) each key and value once more.
      // Weights that are rounded to bf16, in numerator and denominator, are off by 2^-9 in each.
      const double bound =
          (8 * static_cast<double>(dim + 2) * magnitude + 4 * static_cast<double>(length) + 100) *
              kUlp +
          (AsPairs() ? 0x2p-9 : 0);
      for (int64_t d = 0; d < dim; ++d) {
        double expected = 0;
        for (int64_t p = 0; p < length; ++p) {
          expected +=
              weights[static_cast<size_t>(p)] / sum * values_[static_cast<size_t>(p * dim + d)];
        }
        ASSERT_NEAR(out[static_cast<size_t>(row * stride_ + head * dim + d)], expected, bound)
            << "group " << case_.group << " dim " << dim << " position " << length - 1 << " head "
            << head << " d " << d;
      }
    }
    for (int64_t i = case_.group * dim; i < stride_; ++i) {
      ASSERT_TRUE(std::isnan(out[static_cast<size_t>(row * stride_ + i)]))
          << "written past the group";
    }
  }

  Case case_ = {};
  int64_t padded_ = 0, state_floats_ = 0, block_stride_ = 0, stride_ = 0;
  KvDType dtype_ = KvDType::kF32;
  std::vector<unsigned char> pool_;
  std::vector<float> keys_, values_, queries_;
  std::vector<int32_t> blocks_;
};

INSTANTIATE_TEST_SUITE_P(Isa, AttentionTest, testing::ValuesIn(AllKernels()), KernelName);

TEST_P(AttentionTest, MatchesANaiveOne) {
  for (const KvDType dtype : kKvDTypes) {
    SCOPED_TRACE(KvDTypeName(dtype));
    for (const Case& c :
         {Case{1, 16, 0, 1}, Case{3, 64, 14, 9}, Case{8, 128, 60, 5}, Case{2, 20, 500, 24},
          Case{1, 6, 1020, 8}, Case{5, 32, 511, 2}, Case{60, 10, 70, 1}, Case{2, 80, 0, 70}}) {
      SetUpCase(c, dtype);
      const std::vector<float> out = Run(0, c.rows);
      RoundKeysAndValues();
      for (int64_t row = 0; row < c.rows; ++row) ExpectNaive(out, row);
    }
  }
}

// Alone, with nothing written after its own position; among the rows of its chunk; and split by
// spans: the same bits.
TEST_P(AttentionTest, ARowDoesNotDependOnTheOthers) {
  for (const KvDType dtype : kKvDTypes) {
    for (const Case& c : {Case{3, 64, 40, 50}, Case{1, 18, 505, 24}, Case{4, 32, 1000, 30}}) {
      SetUpCase(c, dtype);
      const std::vector<float> whole = Run(0, c.rows);
      const size_t bytes = static_cast<size_t>(c.group * c.head_dim) * sizeof(float);
      for (int64_t row = 0; row < c.rows; ++row) {
        WriteUpTo(c.position + row + 1);
        const float* expected = whole.data() + row * stride_;
        ASSERT_EQ(std::memcmp(Run(row, 1).data(), expected, bytes), 0)
            << KvDTypeName(dtype) << " row " << row << " alone";
        ASSERT_EQ(std::memcmp(Run(row, 1, true).data(), expected, bytes), 0)
            << KvDTypeName(dtype) << " row " << row << " split";
      }
    }
  }
}

// The instruction sets with fused multiply-adds agree bit for bit over every type of KV. The
// portable one, which rounds twice where the target lacks them, agrees with itself.
TEST_P(AttentionTest, AgreesWithAvx2BitForBit) {
  const std::vector<const Kernels*> all = SupportedKernels();
  const Kernels& other_kernels = &kernels_ == all[0] ? *all[0] : *all[1];
  for (const KvDType dtype : kKvDTypes) {
    SetUpCase({3, 36, 500, 30}, dtype);
    if (AsPairs()) continue;  // an instruction of its own
    const std::vector<float> out = Run(0, 30);
    const std::vector<float> other = RunWith(other_kernels, 0, 30);
    ASSERT_EQ(std::memcmp(out.data(), other.data(), out.size() * sizeof(float)), 0)
        << KvDTypeName(dtype);
  }
}

}  // namespace
}  // namespace erne::cpu
