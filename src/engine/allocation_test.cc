// Once requests run, nothing is allocated: the engine over the CPU executor with erne-mini, every
// thread watched. A program of its own, for it stands in for the C library's malloc.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <features.h>
#include <gtest/gtest.h>

#include "base/file_set.h"
#include "engine/engine.h"
#include "engine/engine_test_util.h"
#include "executor/cpu/cpu_executor.h"
#include "kv/block_pool.h"
#include "model/model.h"

// Sanitizers bring their own malloc, and only glibc has the names behind which its own can be
// found.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
std::atomic<int64_t> allocations{0};

void Count() { allocations.fetch_add(1, std::memory_order_relaxed); }
}  // namespace

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): glibc's own names.
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
// NOLINTEND(bugprone-reserved-identifier)

// operator new comes here too.
void* malloc(size_t size) noexcept {
  Count();
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) noexcept {
  Count();
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) noexcept {
  Count();
  return __libc_realloc(memory, size);
}
void* aligned_alloc(size_t alignment, size_t size) noexcept {
  Count();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) noexcept {
  Count();
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace erne {
namespace {

// Tells before each step; else the executor within.
class WatchedExecutor final : public Executor {
 public:
  WatchedExecutor(std::unique_ptr<Executor> inner, std::function<void(const Batch&)> on_run)
      : inner_(std::move(inner)), on_run_(std::move(on_run)) {}

  Result<std::span<const float>> Run(const Batch& batch) override {
    on_run_(batch);
    return inner_->Run(batch);
  }
  void SetRoutingTrace(RoutingTrace* trace) override { inner_->SetRoutingTrace(trace); }
  const ModelSpec& spec() const override { return inner_->spec(); }
  const ExecutorLimits& limits() const override { return inner_->limits(); }
  ExecutorInfo info() const override { return inner_->info(); }

 private:
  const std::unique_ptr<Executor> inner_;
  const std::function<void(const Batch&)> on_run_;
};

// What had been allocated when a step began, and how many sequences decoded in it (0: one of them
// computed its prompt).
struct StepCount {
  int64_t allocations;
  size_t decoding;
};

TEST(AllocationTest, TheCounterSeesEveryKindOfAllocation) {
  const int64_t before = allocations.load();
  std::unique_ptr<int> plain = std::make_unique<int>(1);
  void* volatile zeroed = std::calloc(3, 5);
  void* volatile aligned = std::aligned_alloc(64, 128);
  void* volatile grown = std::realloc(zeroed, 100);
  std::free(grown);
  std::free(aligned);
  EXPECT_EQ(allocations.load() - before, 4);
}

constexpr int64_t kTokens = 100;

GenerationRequest Request(size_t number) {
  GenerationRequest request;
  request.prompt = {1, 5, 9, static_cast<int32_t>(20 + number)};
  request.max_tokens = kTokens;
  request.sampling = {
      .temperature = 0.8F, .top_p = 0.9F, .top_k = 40, .repetition_penalty = 1.05F, .seed = number};
  return request;
}

// The steps in which `together` requests are answered.
std::vector<StepCount> StepsOf(const std::shared_ptr<const Model>& model, KvDType dtype,
                               size_t together) {
  ExecutorLimits limits;
  limits.max_rows = 64;
  limits.max_logit_rows = limits.max_sequences = 4;
  limits.max_context = 256;
  limits.num_blocks = 4 * BlocksForTokens(256);
  limits.kv_dtype = dtype;
  CpuExecutorOptions options;
  options.threads = 2;
  // All on the loop thread: it empties the streams, as consumers would, and counts.
  std::vector<std::shared_ptr<TokenStream>> streams;
  std::vector<TokenEvent> events;
  std::vector<StepCount> steps;
  events.reserve(2 * together * kTokens);
  steps.reserve(4 * together * kTokens);
  const auto on_run = [&](const Batch& batch) {
    size_t decoding = batch.size();
    for (const SequenceRows& sequence : batch) {
      if (sequence.tokens.size() > 1) decoding = 0;
    }
    steps.push_back({allocations.load(), decoding});
    for (const auto& stream : streams) stream->Take(events);
  };
  Engine engine(
      std::make_unique<WatchedExecutor>(MakeCpuExecutor(model, limits, options).value(), on_run),
      {});
  for (size_t i = 0; i < together; ++i) streams.push_back(MakeStream());
  for (size_t i = 0; i < together; ++i) {
    EXPECT_TRUE(engine.Submit(Request(i), streams[i]).ok());
  }
  engine.Shutdown(600'000);
  return steps;
}

TEST(AllocationTest, DecodingAllocatesNothing) {
  const char* source = std::getenv("ERNE_SOURCE");
  const std::string folder = std::string(source == nullptr ? "." : source) + "/models/erne-mini";
  const auto model = std::make_shared<const Model>(LoadModel(OpenFolder(folder).value()).value());
  for (const KvDType dtype : {KvDType::kF16, KvDType::kInt8}) {
    for (const size_t together : {1, 4}) {
      const std::vector<StepCount> steps = StepsOf(model, dtype, together);
      int64_t counted = 0;
      for (size_t i = 1; i + 1 < steps.size(); ++i) {
        // Everybody decodes in this step, the one before and the one after: nobody came or went.
        bool steady = true;
        for (size_t j = i - 1; j <= i + 1; ++j) steady &= steps[j].decoding == together;
        if (!steady) continue;
        ++counted;
        EXPECT_EQ(steps[i + 1].allocations, steps[i].allocations)
            << KvDTypeName(dtype) << ", " << together << " sequences, step " << i;
      }
      EXPECT_GT(counted, kTokens / 2);
    }
  }
}

}  // namespace
}  // namespace erne

#endif
