#include "cli/memory_plan.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "base/strings.h"
#include "kv/block_pool.h"

namespace erne {
namespace {

// Requests of full length that the pool holds at once; eight is where the tutorials find their
// knee.
constexpr int64_t kFullContexts = 8;
// Tokens that the pool holds at most without a reason: past it, only one full context is one.
constexpr int64_t kPoolTokens = 64 * 1024;
// A context below this answers nobody.
constexpr int64_t kMinContext = 256;
// float32 keys and values.
constexpr uint64_t kKvElementBytes = 4;
// For stacks, tokenizer tables, requests and answers.
constexpr uint64_t kProcessBytes = 64ULL << 20;

std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  file >> text;  // "max" in a group without a limit is no number
  return ParseNumber<uint64_t>(text);
}

std::optional<uint64_t> MemAvailable() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kibibytes = 0;
  std::string unit;
  while (file >> name >> kibibytes) {
    if (name == "MemAvailable:") return kibibytes * 1024;
    std::getline(file, unit);
  }
  return std::nullopt;
}

// The value `key` of memory.stat.
uint64_t MemoryStat(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string name;
  uint64_t value = 0;
  while (file >> name >> value) {
    if (name == key) return value;
  }
  return 0;
}

// What the control group of this process has left. Inside a container the group is mounted at the
// root; version 2 first.
std::optional<uint64_t> GroupAvailable() {
  struct Files {
    const char* limit;
    const char* usage;
    const char* stat;
    const char* cache_key;
  };
  for (const Files& files : {Files{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
                                   "/sys/fs/cgroup/memory.stat", "inactive_file"},
                             Files{"/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                   "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                                   "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file"}}) {
    const std::optional<uint64_t> limit = ReadNumber(files.limit);
    const std::optional<uint64_t> usage = ReadNumber(files.usage);
    if (!limit || !usage) continue;
    // Pages of files count as used and are given back on demand.
    const uint64_t cache = std::min(MemoryStat(files.stat, files.cache_key), *usage);
    const uint64_t used = *usage - cache;
    return *limit > used ? *limit - used : 0;
  }
  return std::nullopt;
}

// Rows of activations and of logits, from above: what an executor allocates next to weights and KV.
uint64_t WorkspaceBytes(const ModelSpec& spec, const MemoryNeeds& needs) {
  const int64_t ffn =
      std::max(spec.dense_intermediate,
               spec.moe.routing.top_k * spec.moe.intermediate + spec.moe.shared_intermediate);
  const int64_t row =
      4 * spec.hidden + spec.attention.q_width() + 2 * spec.attention.kv_width() + 2 * ffn;
  const int64_t logits = needs.max_num_seqs * spec.vocab_size;
  return static_cast<uint64_t>(needs.max_num_batched_tokens * row + logits) * sizeof(float);
}

}  // namespace

uint64_t AvailableMemory() {
  const std::optional<uint64_t> machine = MemAvailable();
  const std::optional<uint64_t> group = GroupAvailable();
  if (machine && group) return std::min(*machine, *group);
  return machine.value_or(group.value_or(0));
}

Result<MemoryPlan> PlanMemory(const ModelSpec& spec, const MemoryNeeds& needs) {
  MemoryPlan plan;
  plan.block_bytes =
      static_cast<uint64_t>(kKvBlockSize * spec.num_layers() * 2 * spec.attention.kv_width()) *
      kKvElementBytes;
  plan.max_context = needs.max_model_len > 0 ? needs.max_model_len : spec.max_positions;

  int64_t fitting = std::numeric_limits<int32_t>::max();  // block ids are 32 bits
  const uint64_t fixed = needs.weight_bytes + WorkspaceBytes(spec, needs) + kProcessBytes;
  if (needs.available_bytes > 0) {
    const auto budget =
        static_cast<uint64_t>(static_cast<double>(needs.available_bytes) * needs.utilization);
    fitting = std::min<int64_t>(
        fitting, static_cast<int64_t>((budget > fixed ? budget - fixed : 0) / plan.block_bytes));
  }
  const int64_t least = std::min(BlocksForTokens(kMinContext), BlocksForTokens(plan.max_context));
  if (fitting < least) {
    return ResourceExhausted(
        StrCat("not enough memory: ", FormatBytes(fixed), " for weights and workspace and ",
               FormatBytes(static_cast<uint64_t>(least) * plan.block_bytes),
               " for the smallest KV cache, but ", FormatBytes(needs.available_bytes),
               " are available and --gpu-memory-utilization ", needs.utilization,
               " bounds what is taken"));
  }
  const int64_t one = BlocksForTokens(plan.max_context);
  const int64_t wanted = std::min(one * std::min(needs.max_num_seqs, kFullContexts),
                                  std::max(one, BlocksForTokens(kPoolTokens)));
  plan.num_blocks = std::min(wanted, fitting);
  if (plan.num_blocks < one) {
    const int64_t asked = plan.max_context;
    plan.max_context = plan.num_blocks * kKvBlockSize;
    plan.context_note = StrCat("the context is reduced from ", asked, " to ", plan.max_context,
                               " tokens: the memory does not hold more");
  }
  return plan;
}

}  // namespace erne
