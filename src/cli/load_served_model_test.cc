// Several models in one process share what memory there is: each claims what it plans.
#include "cli/load_served_model.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/memory_ledger.h"
#include "base/strings.h"
#include "executor/cpu/cpu_executor.h"

namespace erne {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

ServeOptions Options(const std::string& name) {
  ServeOptions options;
  options.served_names = {name};
  options.executor = "cpu";
  options.threads.threads = 1;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 64;
  options.max_model_len = 2048;
  return options;
}

// The embedded erne-mini.
Result<std::shared_ptr<ServedModel>> Load(const ServeOptions& options, MemoryLedger& ledger) {
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<const FileSet> files, OpenModelFiles(options));
  return LoadServedModel(files, options, {}, ledger);
}

TEST(LoadServedModelTest, ClaimsWhatItTakesForAsLongAsItLives) {
  MemoryLedger ledger(1024 * kMiB);
  auto model = Load(Options("a"), ledger).value();
  const ExecutorInfo info = model->engine->executor_info();
  EXPECT_EQ(ledger.reserved(),
            info.weight_bytes + info.kv_bytes + info.workspace_bytes + 64 * kMiB);
  EXPECT_EQ(model->engine->max_context(), 2048);
  EXPECT_EQ(info.kv_type, CpuHasBf16Products() ? "bf16" : "f16");
  model.reset();
  EXPECT_EQ(ledger.reserved(), 0U);
}

TEST(LoadServedModelTest, ALaterModelTakesWhatIsLeft) {
  MemoryLedger unlimited(1024 * kMiB);
  const uint64_t one = Load(Options("a"), unlimited).value()->memory.bytes();
  // Room for a second one without 6 of its 8 full contexts; each takes 8 MiB.
  MemoryLedger ledger(2 * one - 48 * kMiB);
  auto first = Load(Options("first"), ledger).value();
  const auto second = Load(Options("second"), ledger);
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ((*second)->engine->max_context(), 2048);
  EXPECT_LT((*second)->engine->stats().kv_blocks_total, first->engine->stats().kv_blocks_total);
  EXPECT_LE(ledger.reserved(), ledger.cap() + 4 * kMiB);  // packing pads weights
}

TEST(LoadServedModelTest, ALaterModelGetsAShorterContextWhereNoFullOneIsLeft) {
  MemoryLedger unlimited(1024 * kMiB);
  const uint64_t one = Load(Options("a"), unlimited).value()->memory.bytes();
  MemoryLedger ledger(2 * one - 60 * kMiB);
  const auto first = Load(Options("first"), ledger).value();
  const auto second = Load(Options("second"), ledger);
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_LT((*second)->engine->max_context(), 2048);
  EXPECT_GE((*second)->engine->max_context(), 256);
}

TEST(LoadServedModelTest, ALaterModelIsRefusedWithTheNumbersAndFitsAfterAnUnload) {
  MemoryLedger unlimited(1024 * kMiB);
  const uint64_t one = Load(Options("a"), unlimited).value()->memory.bytes();
  MemoryLedger ledger(one + 32 * kMiB);
  auto first = Load(Options("first"), ledger).value();
  const auto second = Load(Options("second"), ledger);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(second.status().message(), HasSubstr("not enough memory: "));
  EXPECT_THAT(second.status().message(),
              HasSubstr(StrCat("32.0 MiB are left: ", FormatBytes(one), " are taken by first")));
  EXPECT_EQ(ledger.reserved(), first->memory.bytes());
  first.reset();
  EXPECT_TRUE(Load(Options("second"), ledger).ok());
  EXPECT_EQ(ledger.reserved(), 0U);
}

TEST(LoadServedModelTest, AKvCacheOfAGivenSize) {
  MemoryLedger ledger(1024 * kMiB);
  ServeOptions options = Options("a");
  options.kv_cache_memory = 16 << 20;
  options.kv_cache_dtype = "float32";
  const auto model = Load(options, ledger).value();
  EXPECT_EQ(model->engine->stats().kv_blocks_total, (16 << 20) / (16 * 8192));
  EXPECT_EQ(model->engine->executor_info().kv_type, "f32");
}

TEST(LoadServedModelTest, AFileThatChangesMeanwhileStopsTheLoad) {
  namespace fs = std::filesystem;
  const char* source = std::getenv("ERNE_SOURCE");
  std::string folder = (fs::temp_directory_path() / "erne-load-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  fs::copy(fs::path(source == nullptr ? "." : source) / "models/erne-mini", folder,
           fs::copy_options::recursive);
  const fs::path weights = fs::path(folder) / "model.safetensors";
  fs::permissions(weights, fs::perms::owner_all);
  ServeOptions options = Options("a");
  options.model = folder;
  MemoryLedger ledger(1024 * kMiB);
  const auto touch = [&](double) {
    fs::last_write_time(weights, fs::last_write_time(weights) + std::chrono::seconds(1));
  };
  const auto model = LoadServedModel(OpenModelFiles(options).value(), options, touch, ledger);
  fs::remove_all(folder);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(model.status().message(), HasSubstr("model.safetensors: was written while"));
  EXPECT_EQ(ledger.reserved(), 0U);
}

TEST(LoadServedModelTest, WarmsUpWhateverTheLimits) {
  for (const int64_t context : {2, 3, 40, 2048}) {
    MemoryLedger ledger(1024 * kMiB);
    ServeOptions options = Options("a");
    options.max_model_len = context;
    options.max_num_seqs = context == 3 ? 1 : 8;
    const auto model = Load(options, ledger).value();
    const Status status = WarmUp(*model, options);
    EXPECT_TRUE(status.ok()) << status.message();
    const EngineStats stats = model->engine->stats();
    EXPECT_GT(stats.generated_tokens, 2);
    EXPECT_EQ(stats.running + stats.waiting, 0);
    EXPECT_EQ(stats.kv_blocks_used, 0);
  }
}

TEST(LoadServedModelTest, MoreThreadsThanCpusAreNotStarted) {
  MemoryLedger ledger(1024 * kMiB);
  ServeOptions options = Options("a");
  options.threads.threads = 4096;
  const auto model = Load(options, ledger);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT((*model)->engine->executor_info().name,
              HasSubstr(StrCat(", ", UsableCpus(), UsableCpus() == 1 ? " thread)" : " threads)")));
}

}  // namespace
}  // namespace erne
