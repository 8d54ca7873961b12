// The CPU executor on generated models of every kind: against the reference executor, and against
// itself (alone, in a batch, in chunks, other blocks, other thread counts), bit for bit. The
// committed models are judged by tests/golden.
#include "executor/cpu/cpu_executor.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "base/strings.h"
#include "executor/cpu/dispatch.h"
#include "executor/cpu/packed_matrix.h"
#include "executor/kv_storage.h"
#include "executor/reference/reference_executor.h"

namespace {
std::atomic<int64_t> allocations{0};

void* CountedAllocation(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(size_t size) { return CountedAllocation(size); }
void* operator new[](size_t size) { return CountedAllocation(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }

namespace erne {
namespace {

using ::testing::HasSubstr;
using Logits = SequenceRows::Logits;

enum class Weights { kF32, kBF16, kF16, kInt4, kInt4Ordered };

// A model with random weights that it owns.
class RandomModel {
 public:
  RandomModel(const ModelSpec& spec, Weights type, uint32_t seed) : type_(type), random_(seed) {
    model_.spec = spec;
    model_.precision = "test weights";
    const AttentionSpec& a = spec.attention;
    model_.weights.embedding = Tensor({spec.vocab_size, spec.hidden}, 1.0F);
    for (const FfnKind kind : spec.layers) {
      LayerWeights layer;
      layer.input_norm = Norm(spec.hidden);
      layer.post_norm = Norm(spec.hidden);
      layer.q = Linear(a.q_width(), spec.hidden, a.qkv_bias);
      layer.k = Linear(a.kv_width(), spec.hidden, a.qkv_bias);
      layer.v = Linear(a.kv_width(), spec.hidden, a.qkv_bias);
      layer.o = Linear(spec.hidden, a.q_width(), a.output_bias);
      if (a.qk_norm) {
        layer.q_norm = Norm(a.head_dim);
        layer.k_norm = Norm(a.head_dim);
      }
      if (kind == FfnKind::kDense) {
        layer.ffn = Mlp(spec.dense_intermediate);
      } else {
        MoeWeights moe;
        moe.router = Tensor({spec.moe.routing.experts, spec.hidden}, 0.3F);
        if (spec.moe.routing.correction_bias)
          moe.correction_bias = Tensor({1, spec.moe.routing.experts}, 0.1F);
        for (int64_t e = 0; e < spec.moe.routing.experts; ++e)
          moe.experts.push_back(Mlp(spec.moe.intermediate));
        if (spec.moe.shared_intermediate > 0) moe.shared = Mlp(spec.moe.shared_intermediate);
        layer.ffn = std::move(moe);
      }
      model_.weights.layers.push_back(std::move(layer));
    }
    model_.weights.final_norm = Norm(spec.hidden);
    if (!spec.tied_head) model_.weights.head = Linear(spec.vocab_size, spec.hidden, false);
  }

  Model& model() { return model_; }

  static std::shared_ptr<const Model> Make(const ModelSpec& spec, Weights type, uint32_t seed) {
    auto random = std::make_shared<RandomModel>(spec, type, seed);
    return {random, &random->model_};
  }

 private:
  float Uniform(float scale) {
    return std::uniform_real_distribution<float>(-scale, scale)(random_);
  }

  TensorView Tensor(Shape shape, float scale) {
    TensorView view{DType::kF32, std::move(shape), nullptr};
    if (type_ == Weights::kBF16) view.dtype = DType::kBF16;
    if (type_ == Weights::kF16) view.dtype = DType::kF16;
    std::vector<std::byte>& bytes = storage_.emplace_back(view.bytes());
    for (int64_t i = 0; i < view.elements(); ++i) {
      const float value = Uniform(scale);
      const uint16_t half = type_ == Weights::kBF16 ? FloatToBf16(value) : FloatToF16(value);
      const size_t size = DTypeSize(view.dtype);
      std::memcpy(bytes.data() + static_cast<size_t>(i) * size,
                  size == 4 ? static_cast<const void*>(&value) : &half, size);
    }
    view.data = bytes.data();
    return view;
  }

  TensorView Norm(int64_t size) { return Tensor({size}, 1.5F); }

  LinearWeights Linear(int64_t rows, int64_t cols, bool bias) {
    LinearWeights weights;
    const float scale = std::sqrt(3.0F / static_cast<float>(cols));
    const bool quantised =
        (type_ == Weights::kInt4 || type_ == Weights::kInt4Ordered) && cols % 8 == 0;
    if (quantised) {
      Int4Matrix q4;
      q4.rows = rows;
      q4.cols = cols;
      q4.group = 8;
      for (int64_t i = 0; i < rows * cols / 2; ++i)
        q4.q.push_back(static_cast<uint8_t>(random_() & 255));
      for (int64_t i = 0; i < rows * cols / 8; ++i) {
        q4.scales.push_back(scale / 8);
        q4.zeros.push_back(static_cast<uint8_t>(6 + random_() % 5));
      }
      if (type_ == Weights::kInt4Ordered) {
        q4.input_order.resize(static_cast<size_t>(cols));
        std::iota(q4.input_order.begin(), q4.input_order.end(), 0);
        std::shuffle(q4.input_order.begin(), q4.input_order.end(), random_);
      }
      weights.matrix = std::move(q4);
    } else {
      weights.matrix = Tensor({rows, cols}, scale);
    }
    if (bias) weights.bias = Tensor({rows}, 0.3F);
    return weights;
  }

  MlpWeights Mlp(int64_t intermediate) {
    const ModelSpec& spec = model_.spec;
    return {Linear(intermediate, spec.hidden, spec.mlp_bias),
            Linear(intermediate, spec.hidden, spec.mlp_bias),
            Linear(spec.hidden, intermediate, spec.mlp_bias)};
  }

  const Weights type_;
  std::mt19937 random_;
  std::deque<std::vector<std::byte>> storage_;
  Model model_;
};

struct Kind {
  std::string name;
  ModelSpec spec;
  Weights weights;
};

ModelSpec BaseSpec() {
  ModelSpec spec;
  spec.architecture = "test";
  spec.vocab_size = 101;
  spec.hidden = 40;
  spec.max_positions = 2048;
  spec.tied_head = true;
  spec.attention.heads = 6;
  spec.attention.kv_heads = 2;
  spec.attention.head_dim = 12;
  spec.dense_intermediate = 56;
  spec.layers = {FfnKind::kDense, FfnKind::kDense};
  return spec;
}

std::vector<Kind> Kinds() {
  std::vector<Kind> kinds;
  ModelSpec spec = BaseSpec();
  spec.attention.rope.style = RopeStyle::kInterleaved;
  kinds.push_back({"interleaved_f32", spec, Weights::kF32});
  kinds.push_back({"interleaved_bf16", spec, Weights::kBF16});

  spec = BaseSpec();
  spec.tied_head = false;
  spec.mlp_bias = spec.attention.qkv_bias = spec.attention.output_bias = true;
  kinds.push_back({"biases_untied_f16", spec, Weights::kF16});
  kinds.push_back({"biases_untied_int4", spec, Weights::kInt4});
  kinds.push_back({"biases_untied_int4_ordered", spec, Weights::kInt4Ordered});

  spec = BaseSpec();
  spec.attention.qk_norm = true;
  spec.attention.heads = spec.attention.kv_heads = 3;
  spec.attention.head_dim = 32;
  spec.attention.rope.scaling = RopeScaling::kLlama3;
  spec.attention.rope.factor = 4;
  spec.attention.rope.original_max_positions = 64;
  spec.hidden = 33;
  spec.dense_intermediate = 17;
  kinds.push_back({"qk_norm_odd_f32", spec, Weights::kF32});

  spec = BaseSpec();
  spec.layers = {FfnKind::kDense, FfnKind::kMoe, FfnKind::kMoe};
  spec.moe.routing = {
      .experts = 7, .top_k = 3, .correction_bias = true, .renormalize = true, .norm_min = 1e-12};
  spec.moe.intermediate = 24;
  spec.moe.shared_intermediate = 72;
  kinds.push_back({"moe_shared_bf16", spec, Weights::kBF16});
  kinds.push_back({"moe_shared_int4_ordered", spec, Weights::kInt4Ordered});
  spec.layers = {FfnKind::kMoe};
  spec.moe.routing = {
      .experts = 4, .top_k = 1, .correction_bias = false, .renormalize = false, .norm_min = 0};
  spec.moe.shared_intermediate = 0;
  kinds.push_back({"moe_plain_f32", spec, Weights::kF32});
  return kinds;
}

constexpr ExecutorLimits kLimits{.max_rows = 160,
                                 .max_logit_rows = 160,
                                 .max_sequences = 8,
                                 .max_context = 1200,
                                 .num_blocks = 160};

constexpr KvDType kKvDTypes[] = {KvDType::kF32, KvDType::kBF16, KvDType::kF16, KvDType::kInt8};

ExecutorLimits WithKv(KvDType dtype) {
  ExecutorLimits limits = kLimits;
  limits.kv_dtype = dtype;
  return limits;
}

std::unique_ptr<Executor> MakeCpu(const std::shared_ptr<const Model>& model, int threads,
                                  const std::string& isa = "",
                                  const ExecutorLimits& limits = kLimits,
                                  const Precision& precision = {}) {
  CpuExecutorOptions options;
  options.threads = threads;
  options.isa = isa;
  options.precision = precision;
  auto executor = MakeCpuExecutor(model, limits, options);
  ERNE_CHECK(executor.ok()) << executor.status().message();
  return std::move(executor).value();
}

// Nothing is rounded but by float32 arithmetic.
constexpr Precision kFloats{.activation = ActivationDType::kF32};

std::vector<int32_t> RandomTokens(size_t count, int64_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab));
  return tokens;
}

std::vector<BlockId> Blocks(int64_t first, int64_t count, int64_t step = 1) {
  std::vector<BlockId> blocks;
  for (int64_t i = 0; i < count; ++i) blocks.push_back(static_cast<BlockId>(first + i * step));
  return blocks;
}

std::vector<float> LogitsOf(Executor& executor, const Batch& batch) {
  const auto logits = executor.Run(batch);
  ERNE_CHECK(logits.ok()) << logits.status().message();
  return {logits->begin(), logits->end()};
}

// Logits of all positions of a sequence that runs in chunks of the given sizes, used in turn.
std::vector<float> RunChunks(Executor& executor, const std::vector<int32_t>& tokens,
                             const std::vector<BlockId>& blocks,
                             const std::vector<size_t>& chunks) {
  std::vector<float> all;
  for (size_t start = 0, i = 0; start < tokens.size(); ++i) {
    const size_t count = std::min(chunks[i % chunks.size()], tokens.size() - start);
    const std::vector<float> part = LogitsOf(
        executor,
        {{static_cast<int64_t>(start), {tokens.data() + start, count}, blocks, Logits::kAll}});
    all.insert(all.end(), part.begin(), part.end());
    start += count;
  }
  return all;
}

class CpuExecutorTest : public testing::TestWithParam<Kind> {
 protected:
  const std::shared_ptr<const Model> model_ =
      RandomModel::Make(GetParam().spec, GetParam().weights, 11);
  const int64_t vocab_ = GetParam().spec.vocab_size;
};

INSTANTIATE_TEST_SUITE_P(Kinds, CpuExecutorTest, testing::ValuesIn(Kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(CpuExecutorTest, MatchesTheReference) {
  const auto reference = MakeReferenceExecutor(model_, kLimits).value();
  const std::vector<int32_t> tokens = RandomTokens(75, vocab_, 1);
  const std::vector<BlockId> blocks = Blocks(3, 5, 7);
  const Batch batch = {{0, tokens, blocks, Logits::kAll}};
  const std::vector<float> expected = LogitsOf(*reference, batch);
  float largest = 0;
  for (const float logit : expected) largest = std::max(largest, std::abs(logit));
  for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
    const auto executor = MakeCpu(model_, 2, kernels->name, kLimits, kFloats);
    const std::vector<float> got = LogitsOf(*executor, batch);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      // The project's bound for float32 executors; both sides round differently at every step.
      ASSERT_NEAR(got[i], expected[i], 1e-4F * largest) << kernels->name << " logit " << i;
    }
  }
}

TEST_P(CpuExecutorTest, ASequenceGivesTheSameBitsInEverySetting) {
  const std::vector<int32_t> tokens = RandomTokens(70, vocab_, 2);
  const std::vector<int32_t> other = RandomTokens(33, vocab_, 3);
  const std::vector<BlockId> blocks = Blocks(0, 5);
  const std::vector<BlockId> far_blocks = Blocks(150, 5, -11);
  const std::vector<BlockId> other_blocks = Blocks(20, 3);
  for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
    // In floats with one set, and rounded with the others.
    const Precision precision = std::string(kernels->name) == "avx2" ? kFloats : Precision();
    const auto executor = MakeCpu(model_, 1, kernels->name, kLimits, precision);
    const std::vector<float> alone = LogitsOf(*executor, {{0, tokens, blocks, Logits::kAll}});
    ASSERT_EQ(alone.size(), tokens.size() * static_cast<size_t>(vocab_));
    EXPECT_TRUE(std::all_of(alone.begin(), alone.end(), [](float x) { return std::isfinite(x); }));
    const auto same = [&](const std::vector<float>& got, const char* setting) {
      EXPECT_EQ(got.size(), alone.size());
      EXPECT_EQ(std::memcmp(got.data(), alone.data(), alone.size() * sizeof(float)), 0)
          << kernels->name << ": " << setting;
    };
    same(RunChunks(*executor, tokens, blocks, {1}), "token by token");
    same(RunChunks(*executor, tokens, far_blocks, {7, 1, 30, 2}), "in chunks, in other blocks");
    for (const int threads : {2, 3}) {
      const auto threaded = MakeCpu(model_, threads, kernels->name, kLimits, precision);
      same(LogitsOf(*threaded, {{0, tokens, blocks, Logits::kAll}}), "with more threads");
      same(RunChunks(*threaded, tokens, blocks, {1, 13}), "with more threads, in chunks");
    }
    // Beside a sequence that decodes and one that is prefilled.
    (void)LogitsOf(*executor, {{0, {other.data(), 32}, other_blocks, Logits::kNone}});
    std::vector<float> beside =
        LogitsOf(*executor, {{32, {other.data() + 32, 1}, other_blocks, Logits::kLast},
                             {0, tokens, blocks, Logits::kAll},
                             {0, other, Blocks(40, 3), Logits::kNone}});
    beside.erase(beside.begin(), beside.begin() + vocab_);
    same(beside, "beside others");
  }
}

// Whatever keys and values are kept in: what is kept for a position depends on that position alone.
TEST(CpuExecutor, EveryKvTypeGivesTheSameBitsInEverySetting) {
  for (const KvDType dtype : kKvDTypes) {
    const ModelSpec spec = Kinds().front().spec;
    const auto model = RandomModel::Make(spec, Weights::kBF16, 11);
    const std::vector<int32_t> tokens = RandomTokens(70, spec.vocab_size, 2);
    const std::vector<int32_t> other = RandomTokens(70, spec.vocab_size, 3);
    const std::vector<BlockId> blocks = Blocks(150, 5, -11);
    const auto vocab = static_cast<size_t>(spec.vocab_size);
    for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
      SCOPED_TRACE(StrCat(KvDTypeName(dtype), " ", kernels->name));
      const auto one = MakeCpu(model, 1, kernels->name, WithKv(dtype));
      const auto three = MakeCpu(model, 3, kernels->name, WithKv(dtype));
      const std::vector<float> alone = RunChunks(*one, tokens, Blocks(0, 5), {70});
      EXPECT_EQ(RunChunks(*one, tokens, blocks, {1}), alone);
      EXPECT_EQ(RunChunks(*three, tokens, blocks, {7, 1, 30, 2}), alone);
      // Blocks that held something much larger, and a neighbour in the batch.
      (void)RunChunks(*three, other, Blocks(0, 5), {70});
      const std::vector<float> beside = LogitsOf(*three, {{0, tokens, Blocks(0, 5), Logits::kAll},
                                                          {0, other, Blocks(5, 5), Logits::kAll}});
      EXPECT_EQ(
          std::vector<float>(beside.begin(), beside.begin() + static_cast<int64_t>(70 * vocab)),
          alone);
    }
  }
}

// Long sequences are cut into spans, which threads share when there is nothing else to do.
TEST(CpuExecutor, LongContextsGiveTheSameBits) {
  ModelSpec spec = BaseSpec();
  spec.layers = {FfnKind::kDense};
  const auto model = RandomModel::Make(spec, Weights::kF32, 5);
  const std::vector<int32_t> tokens = RandomTokens(1100, spec.vocab_size, 6);
  const std::vector<BlockId> blocks = Blocks(0, 69);
  for (const KvDType dtype : {KvDType::kF32, KvDType::kInt8}) {
    const auto one = MakeCpu(model, 1, "", WithKv(dtype));
    const auto three = MakeCpu(model, 3, "", WithKv(dtype));
    const std::vector<float> prefilled = RunChunks(*one, tokens, blocks, {160});
    EXPECT_EQ(RunChunks(*three, tokens, blocks, {97}), prefilled) << KvDTypeName(dtype);
    EXPECT_EQ(RunChunks(*one, tokens, blocks, {1}), prefilled) << KvDTypeName(dtype);
    EXPECT_EQ(RunChunks(*three, tokens, blocks, {1}), prefilled) << KvDTypeName(dtype);
  }
}

// The KV pool starts as NaN where DCHECKs are on (the sanitizer runs); what one sequence leaves in
// a block must not reach the next.
TEST(CpuExecutor, ReadsNothingThatWasNotWritten) {
  const ModelSpec spec = BaseSpec();
  const auto model = RandomModel::Make(spec, Weights::kF32, 5);
  const std::vector<int32_t> tokens = RandomTokens(20, spec.vocab_size, 6);
  const auto executor = MakeCpu(model, 2);
  const std::vector<float> fresh = LogitsOf(*executor, {{0, tokens, Blocks(0, 2), Logits::kAll}});
  EXPECT_TRUE(std::all_of(fresh.begin(), fresh.end(), [](float x) { return std::isfinite(x); }));
  const std::vector<int32_t> longer = RandomTokens(150, spec.vocab_size, 7);
  (void)LogitsOf(*executor, {{0, longer, Blocks(0, 10), Logits::kNone}});
  EXPECT_EQ(LogitsOf(*executor, {{0, tokens, Blocks(0, 2), Logits::kAll}}), fresh);
}

TEST(CpuExecutor, GivesTheLogitRowsThatWereAskedFor) {
  const ModelSpec spec = BaseSpec();
  const auto executor = MakeCpu(RandomModel::Make(spec, Weights::kF32, 5), 2);
  const auto vocab = static_cast<size_t>(spec.vocab_size);
  const std::vector<int32_t> tokens = {5, 6, 7};
  const std::vector<BlockId> blocks[] = {{3}, {0}, {2}};
  const std::vector<float> all = LogitsOf(*executor, {{0, tokens, blocks[0], Logits::kAll}});
  ASSERT_EQ(all.size(), 3 * vocab);
  EXPECT_TRUE(LogitsOf(*executor, {{0, tokens, blocks[0], Logits::kNone}}).empty());
  EXPECT_TRUE(LogitsOf(*executor, {}).empty());
  const std::vector<float> mixed =
      LogitsOf(*executor, {{0, tokens, blocks[0], Logits::kLast},
                           {0, {tokens.data(), 2}, blocks[1], Logits::kNone},
                           {0, tokens, blocks[2], Logits::kAll}});
  ASSERT_EQ(mixed.size(), 4 * vocab);
  EXPECT_TRUE(std::equal(mixed.begin(), mixed.begin() + static_cast<int64_t>(vocab),
                         all.end() - static_cast<int64_t>(vocab)));
  EXPECT_TRUE(std::equal(mixed.begin() + static_cast<int64_t>(vocab), mixed.end(), all.begin()));
}

TEST(CpuExecutor, TracesTheSameExpertsAsTheReference) {
  for (const Kind& kind : Kinds()) {
    if (!kind.spec.has_moe()) continue;
    const auto model = RandomModel::Make(kind.spec, kind.weights, 9);
    const auto reference = MakeReferenceExecutor(model, kLimits).value();
    const auto executor = MakeCpu(model, 2, "", kLimits, kFloats);
    const std::vector<int32_t> tokens = RandomTokens(40, kind.spec.vocab_size, 1);
    RoutingTrace expected;
    RoutingTrace trace;
    reference->SetRoutingTrace(&expected);
    executor->SetRoutingTrace(&trace);
    const std::vector<BlockId> blocks = Blocks(0, 3);
    (void)LogitsOf(*reference, {{0, tokens, blocks, Logits::kNone}});
    (void)LogitsOf(*executor, {{0, tokens, blocks, Logits::kNone}});
    ASSERT_EQ(trace.layers.size(), expected.layers.size());
    for (size_t i = 0; i < trace.layers.size(); ++i) {
      EXPECT_EQ(trace.layers[i].layer, expected.layers[i].layer);
      EXPECT_EQ(trace.layers[i].ids, expected.layers[i].ids) << kind.name;
    }
  }
}

// `model` with every matrix that `quantization` rounds, and a tied embedding, as the floats that
// the canonical form (formats/int8.h) stands for.
class RoundedModel {
 public:
  RoundedModel(const Model& model, Quantization quantization) : to_(quantization), model_(model) {
    for (LayerWeights& layer : model_.weights.layers) {
      for (LinearWeights* matrix : {&layer.q, &layer.k, &layer.v, &layer.o}) Round(*matrix);
      if (auto* dense = std::get_if<MlpWeights>(&layer.ffn)) Round(*dense);
      if (auto* moe = std::get_if<MoeWeights>(&layer.ffn)) {
        for (MlpWeights& expert : moe->experts) Round(expert);
        if (moe->shared) Round(*moe->shared);
      }
    }
    if (model_.weights.head.present()) {
      Round(model_.weights.head);
    } else {
      LinearWeights head;
      head.matrix = model_.weights.embedding;
      Round(head);
      model_.weights.embedding = std::get<TensorView>(head.matrix);
    }
  }
  const Model& model() const { return model_; }

 private:
  void Round(MlpWeights& mlp) {
    for (LinearWeights* matrix : {&mlp.gate, &mlp.up, &mlp.down}) Round(*matrix);
  }
  void Round(LinearWeights& weights) {
    const auto view = std::get<TensorView>(weights.matrix);
    const int64_t rows = view.shape[0];
    const int64_t cols = view.shape[1];
    std::vector<float>& values = storage_.emplace_back(static_cast<size_t>(rows * cols));
    const int64_t group = Int4GroupFor(cols, cpu::kInt4Group);
    for (int64_t r = 0; r < rows; ++r) {
      const std::span<float> out(values.data() + r * cols, static_cast<size_t>(cols));
      if (to_ == Quantization::kInt4 && group > 0) {
        DequantizeRow(QuantizeInt4(view, r, 1, group), 0, out);
      } else {
        DequantizeRow(QuantizeInt8(view, r, 1, std::min(cols, cpu::kInt8Group)), 0, out);
      }
    }
    weights.matrix =
        TensorView{DType::kF32, view.shape, reinterpret_cast<const std::byte*>(values.data())};
  }

  const Quantization to_;
  std::deque<std::vector<float>> storage_;
  Model model_;
};

TEST(CpuExecutor, RoundsWeightsToTheCanonicalForm) {
  for (const Kind& kind : Kinds()) {
    if (kind.weights == Weights::kInt4 || kind.weights == Weights::kInt4Ordered) continue;
    const auto model = RandomModel::Make(kind.spec, kind.weights, 11);
    const std::vector<int32_t> tokens = RandomTokens(40, kind.spec.vocab_size, 1);
    const std::vector<BlockId> blocks = Blocks(0, 3);
    for (const Quantization to : {Quantization::kInt8, Quantization::kInt4}) {
      const auto rounded = std::make_shared<RoundedModel>(*model, to);
      const auto reference = MakeReferenceExecutor({rounded, &rounded->model()}, kLimits).value();
      const std::vector<float> expected = LogitsOf(*reference, {{0, tokens, blocks, Logits::kAll}});
      float largest = 0;
      for (const float logit : expected) largest = std::max(largest, std::abs(logit));
      Precision precision = kFloats;
      precision.quantization = to;
      for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
        const auto executor = MakeCpu(model, 2, kernels->name, kLimits, precision);
        const std::vector<float> got = LogitsOf(*executor, {{0, tokens, blocks, Logits::kAll}});
        ASSERT_EQ(got.size(), expected.size());
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], expected[i], 1e-4F * largest) << kind.name << " " << kernels->name;
      }
    }
  }
}

TEST(CpuExecutor, RoundsTheHeadAlone) {
  const auto model = RandomModel::Make(BaseSpec(), Weights::kBF16, 11);
  const std::vector<int32_t> tokens = RandomTokens(9, 101, 1);
  const std::vector<BlockId> blocks = Blocks(0, 1);
  const Batch batch = {{0, tokens, blocks, Logits::kAll}};
  Precision precision = kFloats;
  precision.head = Quantization::kInt4;
  const auto executor = MakeCpu(model, 1, "", kLimits, precision);
  EXPECT_EQ(executor->info().weight_type, "test weights, head as int4");
  EXPECT_EQ(executor->info().activation_type, "f32");
  const std::vector<float> got = LogitsOf(*executor, batch);
  EXPECT_NE(got, LogitsOf(*MakeCpu(model, 1, "", kLimits, kFloats), batch));
  precision.quantization = Quantization::kInt8;
  const auto both = MakeCpu(model, 1, "", kLimits, precision);
  EXPECT_EQ(both->info().weight_type, "test weights as int8, head as int4");
  EXPECT_NE(LogitsOf(*both, batch), got);
}

TEST(CpuExecutor, AStepAllocatesNothing) {
  for (const Kind& kind : Kinds()) {
    const auto executor = MakeCpu(RandomModel::Make(kind.spec, kind.weights, 9), 2);
    const std::vector<int32_t> tokens = RandomTokens(40, kind.spec.vocab_size, 1);
    const std::vector<BlockId> blocks[] = {Blocks(0, 3), Blocks(3, 3)};
    const Batch prefill = {{0, tokens, blocks[0], Logits::kAll},
                           {0, tokens, blocks[1], Logits::kLast}};
    const Batch decode = {{39, {tokens.data(), 1}, blocks[0], Logits::kLast},
                          {20, {tokens.data(), 1}, blocks[1], Logits::kLast}};
    const int64_t before = allocations.load();
    ASSERT_TRUE(executor->Run(prefill).ok());
    ASSERT_TRUE(executor->Run(decode).ok());
    EXPECT_EQ(allocations.load() - before, 0) << kind.name;
  }
}

TEST(CpuExecutor, DescribesItself) {
  std::vector<double> progress;
  const auto model = RandomModel::Make(BaseSpec(), Weights::kBF16, 5);
  CpuExecutorOptions options;
  options.threads = 3;
  options.isa = "scalar";
  const auto executor = MakeCpuExecutor(model, kLimits, options, [&](double done) {
                          progress.push_back(done);
                        }).value();
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_EQ(progress.back(), 1.0);
  const ExecutorInfo info = executor->info();
  EXPECT_EQ(info.name, "cpu (scalar, 3 threads)");
  EXPECT_EQ(info.weight_type, "test weights");
  EXPECT_EQ(info.activation_type, "f32");
  EXPECT_EQ(info.kv_type, "f32");
  // Two layers, 160 blocks of 16 positions, two heads: K of 12 floats, V padded to 16.
  const uint64_t kv = 2ULL * 160 * 16 * 2 * (12 + 16) * 4;
  EXPECT_GE(info.kv_bytes, kv);
  EXPECT_LE(info.kv_bytes, kv + (4U << 20));
  EXPECT_GT(info.weight_bytes, 101U * 40 * 2);
  EXPECT_GT(info.workspace_bytes, 160U * 101 * 4);

  ExecutorLimits limits = WithKv(KvDType::kInt8);
  limits.num_blocks = 20000;
  const ExecutorInfo narrow = MakeCpu(model, 1, "", limits)->info();
  EXPECT_EQ(narrow.kv_type, "int8");
  EXPECT_EQ(limits.num_blocks * static_cast<int64_t>(KvBlockBytes(model->spec, KvDType::kInt8)),
            2 * 20000LL * 16 * 2 * (12 + 16 + 8));
  EXPECT_GE(narrow.kv_bytes, 20000 * KvBlockBytes(model->spec, KvDType::kInt8));
  EXPECT_LE(narrow.kv_bytes, 20000 * KvBlockBytes(model->spec, KvDType::kInt8) + (4U << 20));
  EXPECT_EQ(DescribeCpuExecutor(*model, KvDType::kBF16)->kv_type, "bf16");
}

TEST(CpuExecutor, OutlivesTheModel) {
  for (const bool tied : {true, false}) {
    ModelSpec spec = BaseSpec();
    spec.tied_head = tied;
    auto model = RandomModel::Make(spec, Weights::kF32, 5);
    const auto executor = MakeCpu(model, 1);
    const std::vector<int32_t> tokens = {1, 2, 3};
    const std::vector<float> before =
        LogitsOf(*executor, {{0, tokens, Blocks(0, 1), Logits::kAll}});
    model.reset();
    EXPECT_EQ(LogitsOf(*executor, {{0, tokens, Blocks(0, 1), Logits::kAll}}), before);
  }
}

TEST(CpuExecutor, RefusesWhatItCannotDo) {
  const auto model = RandomModel::Make(BaseSpec(), Weights::kF32, 5);
  const auto refusal = [](const std::shared_ptr<const Model>& broken, const ExecutorLimits& limits,
                          const CpuExecutorOptions& options = {}) {
    const auto executor = MakeCpuExecutor(broken, limits, options);
    EXPECT_FALSE(executor.ok());
    return executor.status();
  };
  CpuExecutorOptions options;
  options.isa = "mmx";
  EXPECT_THAT(refusal(model, kLimits, options).message(), HasSubstr("\"mmx\""));
  options = {};
  options.threads = -1;
  EXPECT_THAT(refusal(model, kLimits, options).message(), HasSubstr("threads is -1"));
  ExecutorLimits limits = kLimits;
  limits.max_rows = 0;
  EXPECT_THAT(refusal(model, limits).message(), HasSubstr("max_rows"));
  limits = kLimits;
  limits.max_context = int64_t{1} << 40;
  EXPECT_EQ(refusal(model, limits).code(), StatusCode::kInvalidArgument);
  // 15 TB of float32 KV.
  limits = kLimits;
  limits.num_blocks = std::numeric_limits<int32_t>::max();
  const Status status = refusal(model, limits);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("KV cache"));
  EXPECT_THAT(status.message(), HasSubstr("bytes"));

  const auto broken = [&](auto change) {
    auto copy = std::make_shared<RandomModel>(BaseSpec(), Weights::kF32, 5);
    change(copy->model());
    return refusal({copy, &copy->model()}, kLimits).message();
  };
  EXPECT_THAT(broken([](Model& m) { m.weights.layers[1].k = {}; }),
              HasSubstr("layer 1 k: the weights are absent"));
  EXPECT_THAT(broken([](Model& m) { m.weights.layers.pop_back(); }), HasSubstr("1 of 2 layers"));
  EXPECT_THAT(broken([](Model& m) { m.spec.attention.qk_norm = true; }),
              HasSubstr("layer 0: the norms"));
  EXPECT_THAT(broken([](Model& m) { m.spec.attention.kv_heads = 0; }), HasSubstr("0 kv heads"));
  EXPECT_THAT(broken([](Model& m) { m.spec.vocab_size = 102; }), HasSubstr("embedding"));
  EXPECT_THAT(broken([](Model& m) { m.spec.layers[0] = FfnKind::kMoe; }), HasSubstr("experts"));
}

}  // namespace
}  // namespace erne
