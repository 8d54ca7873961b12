// One step: rows are embedded, pass the layers, and those with logits pass the head. Every stage is
// a parallel loop over the fixed team of threads; the stages of a layer are
//   norm | q, k, v | rotate and store K, V | attention | o, added to x
//   norm | gate and up, multiplied | down, added to x (dense) norm | router | choose | gate and up
//   of all experts | down of all experts | weighted sum (mixture of experts)
// Everything a step touches is taken by MakeCpuExecutor.
#include "executor/cpu/cpu_executor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/machine.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "executor/batch_check.h"
#include "executor/cpu/attention_runner.h"
#include "executor/cpu/dispatch.h"
#include "executor/cpu/expert_groups.h"
#include "executor/cpu/gemm_runner.h"
#include "executor/cpu/memory.h"
#include "executor/cpu/packed_model.h"
#include "executor/rope.h"
#include "moe/routing.h"

namespace erne {
namespace cpu {
namespace {

// Rows that one thread handles at once where a row is a few microseconds of work: fewer do not pay
// for waking the others.
constexpr int64_t kRowGrain = 4;
// More threads than any machine we know has CPUs; a request for more is a mistake.
constexpr int kMaxThreads = 4096;

// Of the time that loading takes, by and large: the rest is for the pages of the KV cache.
constexpr double kPackingShare = 0.9;

// How long loading waits for the pages of the KV cache. Memory that the machine has at hand comes
// at 10 GB/s and more. A virtual machine may have to ask its host, at a twentieth of that: then the
// rest comes while the first requests are answered.
constexpr double kPageSeconds = 0.5;

// Rows of activations in one array, each starting on a cache line.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;

  float* operator[](int64_t row) const { return data + row * stride; }
};

void AddRows(Workspace& workspace, Rows& rows, int64_t count, int64_t width) {
  rows.stride = RoundUp(width, kLanes);
  workspace.Add(&rows.data, {count, rows.stride});
}

// Rows, positions and blocks are 32-bit numbers in the kernels' tables.
Status CheckSizes(const ExecutorLimits& limits, const ModelSpec& spec) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const int64_t slots_per_row = spec.has_moe() ? spec.moe.routing.top_k : 1;
  if (limits.max_rows > kMax / slots_per_row || limits.max_logit_rows > kMax ||
      limits.max_context > kMax || limits.num_blocks > kMax) {
    return InvalidArgument(
        StrCat("the CPU executor counts rows x experts, positions and blocks in 32 bits: ",
               limits.max_rows, " rows, ", limits.max_logit_rows, " rows with logits, ",
               limits.max_context, " positions, ", limits.num_blocks, " blocks are too many"));
  }
  return {};
}

Status CheckSpec(const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  if (spec.hidden <= 0 || spec.vocab_size <= 0 || a.heads <= 0 || a.kv_heads <= 0 ||
      a.head_dim <= 0 || a.heads % a.kv_heads != 0 || a.head_dim % 2 != 0) {
    return InvalidArgument(StrCat("the CPU executor cannot run hidden size ", spec.hidden, " with ",
                                  a.heads, " heads of ", a.head_dim, ", ", a.kv_heads,
                                  " kv heads and vocabulary ", spec.vocab_size));
  }
  const RoutingSpec& r = spec.moe.routing;
  if (spec.has_moe() &&
      (r.experts <= 0 || r.top_k <= 0 || r.top_k > r.experts || spec.moe.intermediate <= 0)) {
    return InvalidArgument(StrCat("the CPU executor cannot choose ", r.top_k, " of ", r.experts,
                                  " experts of width ", spec.moe.intermediate));
  }
  return {};
}

// A loop has q, k and v of all rows, or all experts of a layer and the shared one, each row with
// top_k experts; matrices with orders of their own (GPTQ) want the rows of each in its own form.
GemmLimits LimitsOfProducts(const PackedModel& model, const ExecutorLimits& limits) {
  const RoutingSpec& routing = model.spec.moe.routing;
  const int64_t experts_of_row = model.spec.has_moe() ? routing.top_k + 1 : 1;
  GemmLimits products;
  products.max_jobs = std::max<int64_t>(3, routing.experts + 1);
  products.max_rows = limits.max_rows * std::max<int64_t>(3, 2 * experts_of_row);
  products.max_row_bytes = model.max_row_bytes;
  products.max_cols = model.max_permuted_cols;
  return products;
}

class CpuExecutor final : public Executor {
 public:
  // `described`: name and types of what this is.
  CpuExecutor(PackedModel model, ExecutorInfo described, const ExecutorLimits& limits,
              const Kernels& kernels, std::unique_ptr<ThreadPool> pool)
      : model_(std::move(model)),
        described_(std::move(described)),
        limits_(limits),
        kernels_(kernels),
        pool_(std::move(pool)),
        rope_(model_.spec.attention.rope, model_.spec.attention.head_dim),
        gemms_(kernels, *pool_, LimitsOfProducts(model_, limits), workspace_),
        attention_(kernels, *pool_, model_.spec, limits, workspace_),
        cache_(kernels, model_.spec, limits, kv_memory_) {}

  // `progress` in [0, 1].
  Status Allocate(const LoadProgress& progress) {
    SizeArrays();
    ERNE_RETURN_IF_ERROR(workspace_.Allocate("the workspace of the CPU executor"));
    ERNE_RETURN_IF_ERROR(kv_memory_.Allocate(
        StrCat("the KV cache of ", limits_.num_blocks, " blocks (", described_.kv_type, ")"),
        Workspace::Start::kUntouched));
    kv_memory_.TakePages(*pool_, kPageSeconds, progress);
    if (!kv_memory_.has_all_pages()) page_taker_.Start(kv_memory_);
    return {};
  }

  Result<std::span<const float>> Run(const Batch& batch) override {
    const BatchSize size = CheckBatch(batch, model_.spec.vocab_size, limits_);
    rows_ = size.rows;
    if (trace_ != nullptr) trace_->layers.clear();
    if (profile_ != nullptr) marked_ = SteadySeconds();
    Plan(batch);
    EmbedRows(batch);
    for (int64_t i = 0; i < model_.spec.num_layers(); ++i) {
      const PackedLayer& layer = model_.layers[static_cast<size_t>(i)];
      Attend(layer, i);
      NormRows(layer.post_norm);
      Mark(StepProfile::kOther);
      if (layer.dense.has_value()) {
        RunDense(*layer.dense);
      } else {
        RunMoe(*layer.moe, i);
      }
    }
    const std::span<const float> logits = Head(size.logit_rows);
    Mark(StepProfile::kHead);
    return logits;
  }

  int threads() const override { return pool_->threads(); }
  void AdoptThread() override { pool_->PinCaller(); }
  void ForEach(int64_t count, const std::function<void(int64_t)>& body) override {
    pool_->ParallelFor(count, 1, [&body](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  }

  void SetRoutingTrace(RoutingTrace* trace) override { trace_ = trace; }
  void SetProfile(StepProfile* profile) override { profile_ = profile; }
  const ModelSpec& spec() const override { return model_.spec; }
  const ExecutorLimits& limits() const override { return limits_; }

  ExecutorInfo info() const override {
    ExecutorInfo info = described_;
    info.weight_bytes = model_.bytes;
    info.kv_bytes = kv_memory_.bytes();
    info.workspace_bytes = workspace_.bytes();
    return info;
  }

 private:
  // Where a row's K and V go.
  struct Place {
    BlockId block;
    int32_t offset;
  };

  void SizeArrays() {
    const ModelSpec& spec = model_.spec;
    const AttentionSpec& a = spec.attention;
    const int64_t rows = limits_.max_rows;
    AddRows(workspace_, x_, rows, spec.hidden);
    AddRows(workspace_, normed_, rows, spec.hidden);
    AddRows(workspace_, q_, rows, a.q_width());
    AddRows(workspace_, attended_, rows, a.q_width());
    AddRows(workspace_, k_, rows, a.kv_width());
    AddRows(workspace_, v_, rows, a.kv_width());
    AddRows(workspace_, cos_, rows, rope_.pairs());
    AddRows(workspace_, sin_, rows, rope_.pairs());
    workspace_.Add(&places_, {rows});
    workspace_.Add(&logit_rows_, {limits_.max_logit_rows});
    AddRows(workspace_, head_in_, limits_.max_logit_rows, spec.hidden);
    workspace_.Add(&logits_, {limits_.max_logit_rows, spec.vocab_size});
    int64_t plain = 0;  // width of MLPs that all rows pass
    if (std::count(spec.layers.begin(), spec.layers.end(), FfnKind::kDense) > 0)
      plain = spec.dense_intermediate;
    if (spec.has_moe()) {
      const RoutingSpec& routing = spec.moe.routing;
      plain = std::max(plain, spec.moe.shared_intermediate);
      const int64_t slots = CheckedProduct({rows, routing.top_k}).value_or(-1);
      AddRows(workspace_, router_logits_, rows, routing.experts);
      AddRows(workspace_, expert_hidden_, slots, spec.moe.intermediate);
      AddRows(workspace_, expert_out_, slots, spec.hidden);
      if (spec.moe.shared_intermediate > 0) AddRows(workspace_, shared_out_, rows, spec.hidden);
      workspace_.Add(&expert_ids_, {slots});
      workspace_.Add(&expert_weights_, {slots});
      workspace_.Add(&slot_rows_, {slots});
      workspace_.Add(&slots_, {slots});
      workspace_.Add(&expert_begin_, {routing.experts + 1});
      AddRows(workspace_, router_scratch_, pool_->threads(), 2 * routing.experts);
    }
    AddRows(workspace_, hidden_, rows, plain);
  }

  // The time since the last mark was that of `stage`.
  void Mark(StepProfile::Stage stage) {
    if (profile_ == nullptr) return;
    const double now = SteadySeconds();
    profile_->seconds[stage] += now - marked_;
    marked_ = now;
  }

  // Calls body(row, worker) for every row of the step.
  template <typename Body>
  void ForEachRow(const Body& body) {
    const int64_t grain = std::max(kRowGrain, rows_ / (4 * pool_->threads()));
    pool_->ParallelFor(rows_, grain, [&body](int64_t begin, int64_t end, int worker) {
      for (int64_t row = begin; row < end; ++row) body(row, worker);
    });
  }

  void Plan(const Batch& batch) {
    int64_t row = 0;
    int64_t logit_row = 0;
    for (const SequenceRows& sequence : batch) {
      const auto count = static_cast<int64_t>(sequence.tokens.size());
      const int64_t first_with_logits = count - LogitRows(sequence);
      for (int64_t i = 0; i < count; ++i, ++row) {
        const int64_t slot = KvSlot(sequence.blocks, sequence.start + i);
        places_[row] = {static_cast<BlockId>(slot / kKvBlockSize),
                        static_cast<int32_t>(slot % kKvBlockSize)};
        if (i >= first_with_logits) logit_rows_[logit_row++] = row;
      }
    }
    attention_.Plan(batch);
  }

  void EmbedRows(const Batch& batch) {
    const auto pairs = static_cast<size_t>(rope_.pairs());
    int64_t first = 0;
    for (const SequenceRows& sequence : batch) {
      const auto count = static_cast<int64_t>(sequence.tokens.size());
      pool_->ParallelFor(count, kRowGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          model_.Embed(sequence.tokens[static_cast<size_t>(i)], x_[first + i]);
          rope_.Angles(sequence.start + i, {cos_[first + i], pairs}, {sin_[first + i], pairs});
        }
      });
      first += count;
    }
  }

  // normed = RMSNorm(x)
  void NormRows(const std::vector<float>& weight) {
    ForEachRow([&](int64_t row, int) { Norm(x_[row], weight, normed_[row]); });
  }

  void Norm(const float* x, const std::vector<float>& weight, float* out) const {
    kernels_.rms_norm(x, weight.data(), static_cast<float>(model_.spec.norm_eps),
                      static_cast<int64_t>(weight.size()), out);
  }

  GemmJob Product(const PackedMatrix& matrix, const Rows& x, const Rows& y,
                  Epilogue epilogue = Epilogue::kStore) const {
    GemmJob job;
    job.epilogue = epilogue;
    job.matrix = &matrix;
    job.rows = rows_;
    job.x = x.data;
    job.x_stride = x.stride;
    job.y = y.data;
    job.y_stride = y.stride;
    return job;
  }

  // y = silu(gate x) * (up x)
  GemmJob GatedProduct(const PackedMlp& mlp, const Rows& x, const Rows& y) const {
    GemmJob job = Product(mlp.gate, x, y, Epilogue::kSwiGlu);
    job.up = &mlp.up;
    return job;
  }

  void Attend(const PackedLayer& layer, int64_t index) {
    NormRows(layer.input_norm);
    Mark(StepProfile::kOther);
    gemms_.Add(Product(layer.q, normed_, q_));
    gemms_.Add(Product(layer.k, normed_, k_));
    gemms_.Add(Product(layer.v, normed_, v_));
    gemms_.Run();
    Mark(StepProfile::kQkv);
    ForEachRow([&](int64_t row, int) { PlaceRow(layer, index, row); });
    Mark(StepProfile::kOther);
    attention_.Run(cache_, index, q_.data, attended_.data, q_.stride);
    Mark(StepProfile::kAttention);
    gemms_.Run(Product(layer.o, attended_, x_, Epilogue::kAdd));
    Mark(StepProfile::kOutput);
  }

  // Norms, rotates and scales q; norms, rotates and stores k; stores v.
  void PlaceRow(const PackedLayer& layer, int64_t index, int64_t row) {
    const AttentionSpec& a = model_.spec.attention;
    const auto pairs = static_cast<size_t>(rope_.pairs());
    const auto dim = static_cast<size_t>(a.head_dim);
    const float scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
    for (int64_t head = 0; head < a.heads; ++head) {
      float* q = q_[row] + head * a.head_dim;
      if (a.qk_norm) Norm(q, layer.q_norm, q);
      rope_.Rotate({cos_[row], pairs}, {sin_[row], pairs}, {q, dim});
      for (size_t d = 0; d < dim; ++d) q[d] *= scale;
    }
    for (int64_t head = 0; head < a.kv_heads; ++head) {
      float* k = k_[row] + head * a.head_dim;
      if (a.qk_norm) Norm(k, layer.k_norm, k);
      rope_.Rotate({cos_[row], pairs}, {sin_[row], pairs}, {k, dim});
      cache_.Write(index, head, places_[row].block, places_[row].offset, k,
                   v_[row] + head * a.head_dim);
    }
  }

  void RunDense(const PackedMlp& mlp) {
    gemms_.Run(GatedProduct(mlp, normed_, hidden_));
    Mark(StepProfile::kGateUp);
    gemms_.Run(Product(mlp.down, hidden_, x_, Epilogue::kAdd));
    Mark(StepProfile::kDown);
  }

  void RunMoe(const PackedMoe& moe, int64_t index) {
    ChooseExperts(moe, index);
    Mark(StepProfile::kRouter);
    const auto slots_of = [&](size_t e, GemmJob& job) {
      const int64_t begin = expert_begin_[e];
      job.rows = expert_begin_[e + 1] - begin;
      job.y += begin * job.y_stride;
      return begin;
    };
    for (size_t e = 0; e < moe.experts.size(); ++e) {
      GemmJob job = GatedProduct(moe.experts[e], normed_, expert_hidden_);
      job.x_rows = slot_rows_ + slots_of(e, job);
      gemms_.Add(job);
    }
    if (moe.shared.has_value()) gemms_.Add(GatedProduct(*moe.shared, normed_, hidden_));
    gemms_.Run();
    Mark(StepProfile::kGateUp);
    for (size_t e = 0; e < moe.experts.size(); ++e) {
      GemmJob job = Product(moe.experts[e].down, expert_hidden_, expert_out_);
      job.x += slots_of(e, job) * job.x_stride;
      gemms_.Add(job);
    }
    if (moe.shared.has_value()) gemms_.Add(Product(moe.shared->down, hidden_, shared_out_));
    gemms_.Run();
    Mark(StepProfile::kDown);
    const int64_t top_k = model_.spec.moe.routing.top_k;
    ForEachRow([&](int64_t row, int) {
      kernels_.combine(
          expert_out_.data, expert_out_.stride, slots_ + row * top_k, expert_weights_ + row * top_k,
          top_k, moe.shared.has_value() ? shared_out_[row] : nullptr, model_.spec.hidden, x_[row]);
    });
    Mark(StepProfile::kOther);
  }

  void ChooseExperts(const PackedMoe& moe, int64_t index) {
    const RoutingSpec& routing = model_.spec.moe.routing;
    const auto experts = static_cast<size_t>(routing.experts);
    const auto top_k = static_cast<size_t>(routing.top_k);
    gemms_.Run(Product(moe.router, normed_, router_logits_));
    ForEachRow([&](int64_t row, int worker) {
      const int64_t first = row * routing.top_k;
      RouteToken(routing, {router_logits_[row], experts}, moe.correction_bias,
                 {expert_ids_ + first, top_k}, {expert_weights_ + first, top_k},
                 {router_scratch_[worker], 2 * experts});
    });
    const size_t slots = static_cast<size_t>(rows_) * top_k;
    GroupByExpert({expert_ids_, slots}, routing.top_k, {expert_begin_, experts + 1},
                  {slot_rows_, slots}, {slots_, slots});
    if (trace_ != nullptr) trace_->layers.push_back({index, {expert_ids_, expert_ids_ + slots}});
  }

  std::span<const float> Head(int64_t count) {
    pool_->ParallelFor(count, kRowGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        Norm(x_[logit_rows_[i]], model_.final_norm, head_in_[i]);
    });
    GemmJob job = Product(model_.head, head_in_, {logits_, model_.spec.vocab_size});
    job.rows = count;
    gemms_.Run(job);
    return {logits_, static_cast<size_t>(count * model_.spec.vocab_size)};
  }

  const PackedModel model_;
  const ExecutorInfo described_;
  const ExecutorLimits limits_;
  const Kernels& kernels_;
  const std::unique_ptr<ThreadPool> pool_;
  const Rope rope_;
  Workspace workspace_;
  Workspace kv_memory_;
  PageTaker page_taker_;
  GemmRunner gemms_;
  AttentionRunner attention_;
  KvCache cache_;
  RoutingTrace* trace_ = nullptr;
  StepProfile* profile_ = nullptr;
  double marked_ = 0;  // seconds of the steady clock

  int64_t rows_ = 0;                 // of the current step
  Rows x_;                           // residual stream [max_rows, hidden]
  Rows normed_;                      // [max_rows, hidden]
  Rows q_, attended_;                // [max_rows, heads * head_dim]
  Rows k_, v_;                       // [max_rows, kv_heads * head_dim]
  Rows cos_, sin_;                   // [max_rows, head_dim / 2]
  Rows hidden_;                      // [max_rows, widest of the dense and shared MLPs]
  Rows router_logits_;               // [max_rows, experts]
  Rows router_scratch_;              // [threads, 2 * experts]
  Rows expert_hidden_;               // [max_rows * top_k, expert width], by slot
  Rows expert_out_;                  // [max_rows * top_k, hidden], by slot
  Rows shared_out_;                  // [max_rows, hidden]
  Rows head_in_;                     // [max_logit_rows, hidden]
  float* logits_ = nullptr;          // [max_logit_rows, vocab]
  Place* places_ = nullptr;          // [max_rows]
  int64_t* logit_rows_ = nullptr;    // [max_logit_rows]
  int32_t* expert_ids_ = nullptr;    // [max_rows, top_k]
  float* expert_weights_ = nullptr;  // [max_rows, top_k]
  // See expert_groups.h.
  int32_t* expert_begin_ = nullptr;
  int32_t* slot_rows_ = nullptr;
  int32_t* slots_ = nullptr;
};

// The kernels and the number of threads that `options` ask for.
struct Choice {
  const Kernels* kernels = nullptr;
  int threads = 0;
};

Result<Choice> Choose(const CpuExecutorOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return InvalidArgument(StrCat("threads is ", options.threads, ", not in 0..", kMaxThreads),
                           "threads");
  }
  ERNE_ASSIGN_OR_RETURN(const Kernels* kernels, SelectKernels(options.isa));
  return Choice{kernels, options.threads == 0 ? UsableCpus() : options.threads};
}

std::optional<WeightType> RoundedTo(Quantization quantization) {
  if (quantization == Quantization::kInt8) return WeightType::kInt8;
  if (quantization == Quantization::kInt4) return WeightType::kInt4;
  return {};
}

PackTypes ChooseTypes(const Precision& precision, const Kernels& kernels) {
  PackTypes types;
  types.bf16_products = kernels.bf16_products;
  const bool automatic = precision.activation == ActivationDType::kAuto;
  if (precision.activation == ActivationDType::kBF16 || (automatic && kernels.bf16_products))
    types.layers.for_bf16 = ActivationType::kBF16;
  if (precision.activation == ActivationDType::kInt8 || automatic)
    types.layers.for_integers = ActivationType::kInt8;
  types.layers.quantize = RoundedTo(precision.quantization);
  types.head = types.layers;
  if (precision.head != Quantization::kNone) types.head.quantize = RoundedTo(precision.head);
  return types;
}

// The type of activations that `weights` are multiplied with.
const char* ActivationName(const LinearWeights& weights, const PackOptions& options) {
  const auto* view = std::get_if<TensorView>(&weights.matrix);
  ActivationType type = ActivationType::kF32;
  if (view == nullptr || options.quantize.has_value()) {
    type = options.for_integers;
  } else if (view->dtype == DType::kBF16) {
    type = options.for_bf16;
  }
  return type == ActivationType::kInt8 ? "int8" : type == ActivationType::kBF16 ? "bf16" : "f32";
}

ExecutorInfo Describe(const Model& model, const Choice& choice, const Precision& precision,
                      KvDType kv_dtype) {
  const PackTypes types = ChooseTypes(precision, *choice.kernels);
  LinearWeights head = model.weights.head;
  if (!head.present()) head.matrix = model.weights.embedding;
  ExecutorInfo info;
  info.name = StrCat("cpu (", choice.kernels->name, ", ", choice.threads,
                     choice.threads == 1 ? " thread)" : " threads)");
  info.weight_type = model.precision;
  if (precision.quantization != Quantization::kNone)
    info.weight_type += StrCat(" as ", QuantizationName(precision.quantization));
  if (precision.head != Quantization::kNone)
    info.weight_type += StrCat(", head as ", QuantizationName(precision.head));
  const std::string of_head = ActivationName(head, types.head);
  info.activation_type = of_head;
  if (!model.weights.layers.empty()) {
    info.activation_type = ActivationName(model.weights.layers[0].q, types.layers);
    if (info.activation_type != of_head) info.activation_type += StrCat(", head ", of_head);
  }
  info.kv_type = KvDTypeName(kv_dtype);
  return info;
}

}  // namespace
}  // namespace cpu

Result<std::unique_ptr<Executor>> MakeCpuExecutor(std::shared_ptr<const Model> model,
                                                  const ExecutorLimits& limits,
                                                  const CpuExecutorOptions& options,
                                                  const LoadProgress& progress) {
  ERNE_RETURN_IF_ERROR(CheckLimits(limits));
  ERNE_RETURN_IF_ERROR(cpu::CheckSpec(model->spec));
  ERNE_RETURN_IF_ERROR(cpu::CheckSizes(limits, model->spec));
  ERNE_ASSIGN_OR_RETURN(const cpu::Choice choice, cpu::Choose(options));
  auto pool = std::make_unique<ThreadPool>(choice.threads, options.pin_threads);
  ExecutorInfo described = cpu::Describe(*model, choice, options.precision, limits.kv_dtype);
  const auto part = [&progress](double begin, double end) {
    return [&progress, begin, end](double done) {
      if (progress) progress(begin + done * (end - begin));
    };
  };
  auto packed =
      cpu::PackModel(std::move(model), *pool, cpu::ChooseTypes(options.precision, *choice.kernels),
                     part(0, cpu::kPackingShare));
  if (!packed.ok()) return packed.status();
  auto executor = std::make_unique<cpu::CpuExecutor>(*std::move(packed), std::move(described),
                                                     limits, *choice.kernels, std::move(pool));
  ERNE_RETURN_IF_ERROR(executor->Allocate(part(cpu::kPackingShare, 1)));
  if (progress) progress(1.0);
  return std::unique_ptr<Executor>(std::move(executor));
}

bool CpuHasBf16Products() {
  const Result<const cpu::Kernels*> kernels = cpu::SelectKernels("");
  return kernels.ok() && (*kernels)->bf16_products;
}

Result<ExecutorInfo> DescribeCpuExecutor(const Model& model, KvDType kv_dtype,
                                         const CpuExecutorOptions& options) {
  ERNE_ASSIGN_OR_RETURN(const cpu::Choice choice, cpu::Choose(options));
  return cpu::Describe(model, choice, options.precision, kv_dtype);
}

}  // namespace erne
