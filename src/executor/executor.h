// Executor: runs a decoder over a batch of rows. The engine sees this interface alone; cli names
// the concrete ones.
//
// One step = one Batch: several sequences, each with one row (decode) or many (prefill chunk), side
// by side. The executor owns the weights in its own layout and the memory of the paged KV cache;
// the engine owns which block belongs to whom and passes block tables.
//
// Determinism: what a row computes depends on that row's sequence alone (its tokens, positions and
// KV), bit for bit, never on what else is in the batch, how its prompt was cut into chunks, which
// blocks it got or how many threads run.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "kv/block_pool.h"
#include "kv/kv_dtype.h"
#include "model/model.h"
#include "sampling/sampler.h"

namespace erne {

// How the token behind a row is chosen: whoever has the row's logits calls sampler->Sample with the
// point.
struct TokenChoice {
  const RequestSampler* sampler = nullptr;
  SamplePoint point = {};
};

// The rows of one sequence in a step: tokens at positions [start, start + count) of it.
struct SequenceRows {
  int64_t start = 0;                // positions already in the KV cache
  std::span<const int32_t> tokens;  // [count], in 0..vocab-1
  std::span<const BlockId> blocks;  // block table: covers at least start + count positions
  // Which rows need logits: all, the last one, or none (a prompt chunk that is not the last).
  // kToken: the last one, and not its logits come back but the token that `choice` makes of them
  // (Executor::chooses_tokens).
  enum class Logits { kNone, kLast, kAll, kToken } logits = Logits::kLast;
  TokenChoice choice = {};  // kToken: outlives Run
};

using Batch = std::vector<SequenceRows>;

struct ExecutorLimits {
  int64_t max_rows = 0;              // rows in one batch
  int64_t max_logit_rows = 0;        // rows with logits in one batch
  int64_t max_sequences = 0;         // sequences in one batch
  int64_t max_context = 0;           // positions of one sequence
  int64_t num_blocks = 0;            // blocks of the KV pool
  KvDType kv_dtype = KvDType::kF32;  // what they hold; Unimplemented where an executor lacks it
};

// Experts chosen in a step, for tests, traces and statistics. ids: [rows, top_k] per MoE layer,
// rows in batch order.
struct RoutingTrace {
  struct Layer {
    int64_t layer = 0;
    std::vector<int32_t> ids;
  };
  std::vector<Layer> layers;
};

// Where the time of steps goes, for benchmarks: seconds of each stage, all layers together.
struct StepProfile {
  enum Stage {
    kQkv,        // q, k and v
    kAttention,  // over the cache
    kOutput,     // what attention adds
    kRouter,     // and the choice of experts
    kGateUp,     // of dense, expert and shared MLPs
    kDown,
    kHead,
    kOther,  // embedding, norms, rotation, storing k and v, the weighted sum of experts
    kStages
  };
  std::array<double, kStages> seconds = {};
};

struct ExecutorInfo {
  std::string name;         // "cpu (avx512, 2 threads)"
  std::string weight_type;  // "int4 (awq, group 64)": what the kernels read
  std::string activation_type;
  std::string kv_type;  // of keys and values in the cache
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t workspace_bytes = 0;
};

// Not thread-safe: one thread calls Run at a time (the engine's loop thread).
class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  // Runs the batch: writes KV for every row, and computes the logits that were asked for. Returns
  // them as float32 [logit rows, vocab], in batch order and without those of kToken, valid until
  // the next Run. The caller keeps within the limits, tokens within the vocabulary and tables
  // within the pool (CHECKed). An error (a fault of the device) fails the step.
  virtual Result<std::span<const float>> Run(const Batch& batch) = 0;

  // Run, while the caller's thread does `meanwhile`, once, whatever comes of the batch. Here:
  // before it.
  virtual Result<std::span<const float>> RunWhile(const Batch& batch,
                                                  const std::function<void()>& meanwhile) {
    meanwhile();
    return Run(batch);
  }

  // Whether it takes rows that ask for kToken. It chooses what RequestSampler::Sample would, draw
  // for draw.
  virtual bool chooses_tokens() const { return false; }
  // The token of a sequence of the last batch that asked for kToken; once each. `sequence`: its
  // place in the batch. Errors: as RequestSampler::Sample.
  virtual Result<SampledToken> TakeToken(size_t sequence) {
    (void)sequence;
    return Internal("this executor chooses no tokens");
  }

  // To be called once by the thread that will call Run, before it does: an executor whose threads
  // are bound to CPUs binds that one, too.
  virtual void AdoptThread() {}

  // Rows of prompts below which a step with some hardly gets shorter, because what it costs to have
  // any is as much.
  virtual int64_t least_prompt_rows() const { return 1; }

  // Lends the executor's threads between two steps, for work that is as parallel as a step: calls
  // body(i) once for every i below `count`, on any of threads() threads, and returns when all are
  // done. By the thread that calls Run. Here: on that thread.
  virtual int threads() const { return 1; }
  virtual void ForEach(int64_t count, const std::function<void(int64_t)>& body) {
    for (int64_t i = 0; i < count; ++i) body(i);
  }

  // While `trace` is not null, Run fills it (and allocates). It changes no bit of what is computed.
  virtual void SetRoutingTrace(RoutingTrace* trace) = 0;

  // While `profile` is not null, Run adds to it; an executor that cannot tell adds nothing.
  virtual void SetProfile(StepProfile* profile) { (void)profile; }

  virtual const ModelSpec& spec() const = 0;
  virtual const ExecutorLimits& limits() const = 0;
  virtual ExecutorInfo info() const = 0;
};

// Progress of loading in [0, 1]; called from the loading thread.
using LoadProgress = std::function<void(double)>;

}  // namespace erne
