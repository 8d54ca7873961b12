// erne_bench_gpu: how fast the CUDA executor takes its steps.
//
//   erne_bench_gpu [--weights bf16|f16|int4] [--steps N] [--quick]
//
// The ERNIE-4.5-0.3B shape with random weights, so that anybody can repeat it. Nothing is timed
// before it is verified: logits within the bound of the golden tests of the CPU executor's (float32
// activations) and the most probable token equal where that bound decides it; and bit-identical for
// one row alone, beside 63 others, and in a prompt. Tokens chosen on the GPU are those that the
// host's sampler chooses from the same logits, log-probabilities included.
//
// A step is a whole Run: the plan, the kernels, and the chosen tokens back in the host's memory (at
// temperature 0.6, as in nano-vllm's benchmark; --greedy: the most probable ones). Times are
// medians. The floor of a step is the bytes that it must read (weights, keys and values) over the
// read bandwidth measured in the same run.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "cli/flags.h"
#include "cli/make_executor.h"
#include "executor/executor.h"
#include "executor/kv_storage.h"
#include "gpu_roof.h"
#include "kv/block_pool.h"
#include "model/model.h"
#include "sampling/sampler.h"

namespace erne {
namespace {

constexpr int64_t kContext = 4096;
constexpr int64_t kMostRows = 2048;
constexpr int64_t kMostSequences = 256;
constexpr int64_t kGroup = 128;  // of 4-bit weights
// See tests/golden/tolerance.h: the most that rounded activations may move a logit.
constexpr double kBound = 2e-2;

struct Options {
  std::string weights = "bf16";
  int64_t steps = 60;
  bool quick = false;
  bool greedy = false;
  bool profile = false;
};

// A model with weights of its own.
class RandomModel {
 public:
  explicit RandomModel(const std::string& kind) : kind_(kind) {
    ModelSpec& spec = model_->spec;
    spec.architecture = "ernie4_5";
    spec.vocab_size = 103424;
    spec.hidden = 1024;
    spec.max_positions = 131072;
    spec.tied_head = true;
    spec.attention.heads = 16;
    spec.attention.kv_heads = 2;
    spec.attention.head_dim = 128;
    spec.attention.rope.style = RopeStyle::kInterleaved;
    spec.attention.rope.theta = 500000;
    spec.dense_intermediate = 3072;
    spec.layers.assign(18, FfnKind::kDense);
    model_->precision = kind;
    ModelWeights& weights = model_->weights;
    // Logits of a few units: some tokens are more probable than others, none is certain.
    weights.embedding = Floats({spec.vocab_size, spec.hidden}, 0.08F);
    weights.final_norm = Ones(spec.hidden);
    weights.layers.resize(18);
    const AttentionSpec& a = spec.attention;
    for (LayerWeights& layer : weights.layers) {
      layer.input_norm = layer.post_norm = Ones(spec.hidden);
      layer.q = Linear(a.q_width(), spec.hidden);
      layer.k = Linear(a.kv_width(), spec.hidden);
      layer.v = Linear(a.kv_width(), spec.hidden);
      layer.o = Linear(spec.hidden, a.q_width());
      MlpWeights& mlp = layer.ffn.emplace<MlpWeights>();
      mlp.gate = Linear(spec.dense_intermediate, spec.hidden);
      mlp.up = Linear(spec.dense_intermediate, spec.hidden);
      mlp.down = Linear(spec.hidden, spec.dense_intermediate);
    }
  }

  std::shared_ptr<const Model> model() const { return model_; }

 private:
  // In [-1, 1), the same for every machine.
  static float Uniform(uint64_t index) {
    uint64_t z = index * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<float>(static_cast<int32_t>(z >> 32)) * 0x1p-31F;
  }

  TensorView Floats(Shape shape, float size) {
    const bool f16 = kind_ != "bf16";
    const int64_t count = NumElements(shape);
    auto& data = storage_.emplace_back(static_cast<size_t>(count) * 2);
    auto* out = reinterpret_cast<uint16_t*>(data.data());
    const uint64_t first = next_;
    next_ += static_cast<uint64_t>(count);
    pool_.ParallelFor(count, 1 << 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const float value = size * Uniform(first + static_cast<uint64_t>(i));
        out[i] = f16 ? FloatToF16(value) : FloatToBf16(value);
      }
    });
    return {f16 ? DType::kF16 : DType::kBF16, std::move(shape), data.data()};
  }

  TensorView Ones(int64_t width) {
    auto& data = storage_.emplace_back(static_cast<size_t>(width) * 4);
    for (int64_t i = 0; i < width; ++i) {
      const float one = 1;
      std::memcpy(data.data() + i * 4, &one, 4);
    }
    return {DType::kF32, {width}, data.data()};
  }

  LinearWeights Linear(int64_t rows, int64_t cols) {
    const float size = std::sqrt(3.0F / static_cast<float>(cols));  // outputs as large as inputs
    LinearWeights out;
    if (kind_ != "int4") {
      out.matrix = Floats({rows, cols}, size);
      return out;
    }
    Int4Matrix& matrix = out.matrix.emplace<Int4Matrix>();
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.group = kGroup;
    matrix.q.resize(static_cast<size_t>(rows * cols / 2));
    matrix.scales.assign(static_cast<size_t>(rows * cols / kGroup), size / 8);
    matrix.zeros.assign(matrix.scales.size(), 8);
    for (size_t i = 0; i < matrix.q.size(); ++i) {
      matrix.q[i] = static_cast<uint8_t>(std::bit_cast<uint32_t>(Uniform(next_++)) >> 8);
    }
    return out;
  }

  std::string kind_;
  ThreadPool pool_;
  std::vector<std::vector<std::byte>> storage_;
  uint64_t next_ = 1;
  std::shared_ptr<Model> model_ = std::make_shared<Model>();
};

int32_t TokenAt(int64_t sequence, int64_t position) {
  return static_cast<int32_t>((sequence * 7919 + position * 104729 + 11) % 100000);
}

// An executor and sequences with blocks of their own.
class Steps {
 public:
  static Result<std::unique_ptr<Steps>> Make(const std::string& executor,
                                             const std::shared_ptr<const Model>& model,
                                             int64_t rows, int64_t sequences, int64_t context) {
    auto steps = std::make_unique<Steps>();
    ExecutorLimits limits;
    limits.max_rows = rows;
    limits.max_logit_rows = std::min(rows, std::max<int64_t>(sequences, 64));
    limits.max_sequences = sequences;
    limits.max_context = context;
    limits.kv_dtype = KvDType::kF16;
    const int64_t each = BlocksForTokens(context);
    limits.num_blocks = each * sequences;
    ExecutorSettings settings;
    if (executor == "cpu") settings.precision.activation = ActivationDType::kF32;
    ERNE_ASSIGN_OR_RETURN(steps->executor_, MakeExecutor(executor, model, limits, settings));
    // Blocks of a sequence are scattered, as they are in a pool that has been used.
    steps->blocks_.resize(static_cast<size_t>(sequences));
    for (int64_t s = 0; s < sequences; ++s) {
      for (int64_t b = 0; b < each; ++b) {
        steps->blocks_[static_cast<size_t>(s)].push_back(static_cast<BlockId>(b * sequences + s));
      }
    }
    return steps;
  }

  Executor& executor() { return *executor_; }

  // How the tokens of kToken are chosen from now on; each sequence draws with a seed of its own.
  void Choose(const SamplingParams& params) {
    samplers_.clear();
    const std::vector<int32_t> prompt = {TokenAt(0, 0)};
    for (size_t s = 0; s < blocks_.size(); ++s) {
      SamplingParams own = params;
      own.seed += s;
      samplers_.push_back(
          std::make_unique<RequestSampler>(own, executor_->spec().vocab_size, prompt));
    }
  }
  const RequestSampler& sampler(int64_t sequence) const {
    return *samplers_[static_cast<size_t>(sequence)];
  }

  // Rows [start, start + count) of each of `sequences` sequences.
  Result<std::span<const float>> Run(int64_t sequences, int64_t start, int64_t count,
                                     SequenceRows::Logits logits) {
    tokens_.resize(static_cast<size_t>(sequences * count));
    batch_.clear();
    for (int64_t s = 0; s < sequences; ++s) {
      int32_t* tokens = tokens_.data() + s * count;
      for (int64_t i = 0; i < count; ++i) tokens[i] = TokenAt(s, start + i);
      batch_.push_back(
          {start, {tokens, static_cast<size_t>(count)}, blocks_[static_cast<size_t>(s)], logits});
      if (logits != SequenceRows::Logits::kToken) continue;
      batch_.back().choice = {&sampler(s), {.position = static_cast<uint64_t>(start + count)}};
    }
    ERNE_ASSIGN_OR_RETURN(const auto result, executor_->Run(batch_));
    chosen_.clear();
    for (int64_t s = 0; s < sequences && logits == SequenceRows::Logits::kToken; ++s) {
      chosen_.push_back(executor_->TakeToken(static_cast<size_t>(s)));
    }
    return result;
  }

  // Of the last Run that asked for tokens. [sequences]
  const std::vector<Result<SampledToken>>& chosen() const { return chosen_; }

  Status Prefill(int64_t sequences, int64_t depth) {
    const int64_t most = std::max<int64_t>(1, executor_->limits().max_rows / sequences);
    for (int64_t start = 0; start < depth; start += most) {
      const auto run =
          Run(sequences, start, std::min(most, depth - start), SequenceRows::Logits::kNone);
      if (!run.ok()) return run.status();
    }
    return {};
  }

 private:
  std::unique_ptr<Executor> executor_;
  std::vector<std::vector<BlockId>> blocks_;
  std::vector<int32_t> tokens_;
  std::vector<std::unique_ptr<RequestSampler>> samplers_;
  std::vector<Result<SampledToken>> chosen_;
  Batch batch_;
};

// Tokens of one step, chosen by the GPU and, from the logits of the same step, by the host.
Status VerifyChoice(Steps& gpu, const SamplingParams& params, int64_t sequences) {
  constexpr int64_t kPosition = 20;
  const int64_t vocab = gpu.executor().spec().vocab_size;
  gpu.Choose(params);
  ERNE_ASSIGN_OR_RETURN(const auto rows,
                        gpu.Run(sequences, kPosition, 1, SequenceRows::Logits::kLast));
  SamplerScratch scratch(vocab);
  std::vector<SampledToken> expected;
  for (int64_t s = 0; s < sequences; ++s) {
    const auto row = rows.subspan(static_cast<size_t>(s * vocab), static_cast<size_t>(vocab));
    ERNE_ASSIGN_OR_RETURN(
        SampledToken token,
        gpu.sampler(s).Sample(row, {.position = static_cast<uint64_t>(kPosition + 1)}, scratch));
    expected.push_back(std::move(token));
  }
  ERNE_RETURN_IF_ERROR(gpu.Run(sequences, kPosition, 1, SequenceRows::Logits::kToken).status());
  for (int64_t s = 0; s < sequences; ++s) {
    const Result<SampledToken>& got = gpu.chosen()[static_cast<size_t>(s)];
    if (!got.ok()) return got.status();
    const SampledToken& want = expected[static_cast<size_t>(s)];
    const bool same = got->token == want.token &&
                      std::equal(got->logprobs.begin(), got->logprobs.end(), want.logprobs.begin(),
                                 want.logprobs.end(), [](const auto& a, const auto& b) {
                                   return a.token == b.token && a.logprob == b.logprob;
                                 });
    if (!same) {
      return Internal(StrCat("sequence ", s, " of ", sequences, " at temperature ",
                             params.temperature, ", top_k ", params.top_k, ", top_p ", params.top_p,
                             ": token ", got->token, " on the GPU, ", want.token, " on the host"));
    }
  }
  return {};
}

Status VerifySampling(Steps& gpu) {
  const std::vector<SamplingParams> cases = {
      {.temperature = 0},
      {.temperature = 0, .logprobs = 5},
      {.temperature = 0.6F},
      {.temperature = 1.0F, .logprobs = 20},
      {.temperature = 0.3F, .top_p = 0.8F},
      {.temperature = 0.8F, .top_k = 40},
      {.temperature = 0.8F, .top_p = 0.9F, .top_k = 200, .min_p = 0.01F},
      {.temperature = 0.5F, .min_p = 0.1F},
      {.temperature = 0.8F,
       .top_k = 50,
       .repetition_penalty = 1.2F,
       .presence_penalty = 0.5F,
       .logit_bias = {{5, 4.0F}, {100000, 3.5F}},
       .bad_words = {{17}},
       .logprobs = 3},
  };
  const int64_t most = gpu.executor().limits().max_sequences;
  ERNE_RETURN_IF_ERROR(gpu.Prefill(most, 20));
  for (const SamplingParams& params : cases) {
    for (const int64_t sequences : {int64_t{1}, most}) {
      ERNE_RETURN_IF_ERROR(VerifyChoice(gpu, params, sequences));
    }
  }
  std::printf("tokens as the host chooses them, %zu kinds of choice, 1 and %lld sequences\n",
              cases.size(), static_cast<long long>(most));
  return {};
}

Status Verify(Steps& gpu, const std::shared_ptr<const Model>& model) {
  constexpr int64_t kLength = 40;
  const auto vocab = static_cast<size_t>(model->spec.vocab_size);
  ERNE_ASSIGN_OR_RETURN(const auto cpu, Steps::Make("cpu", model, kLength, 1, kLength));
  ERNE_ASSIGN_OR_RETURN(const auto expected, cpu->Run(1, 0, kLength, SequenceRows::Logits::kAll));
  ERNE_ASSIGN_OR_RETURN(const auto prompt, gpu.Run(1, 0, kLength, SequenceRows::Logits::kAll));
  const std::vector<float> whole(prompt.begin(), prompt.end());
  double worst = 0;
  double divergence = 0;
  int equal = 0;
  for (int64_t i = 0; i < kLength; ++i) {
    const auto want = expected.subspan(static_cast<size_t>(i) * vocab, vocab);
    const auto got = std::span<const float>(whole).subspan(static_cast<size_t>(i) * vocab, vocab);
    double largest = 0;
    double difference = 0;
    double want_sum = 0;
    double got_sum = 0;
    for (size_t v = 0; v < vocab; ++v) {
      largest = std::max(largest, static_cast<double>(std::abs(want[v])));
      difference = std::max(difference, static_cast<double>(std::abs(want[v] - got[v])));
      want_sum += std::exp(static_cast<double>(want[v]));
      got_sum += std::exp(static_cast<double>(got[v]));
    }
    for (size_t v = 0; v < vocab; ++v) {
      const double p = std::exp(static_cast<double>(want[v])) / want_sum;
      divergence += p * (want[v] - got[v] + std::log(got_sum / want_sum));
    }
    if (!(difference / largest <= worst)) worst = difference / largest;
    if (ArgMax(want) == ArgMax(got)) ++equal;
  }
  std::printf(
      "verified against %s over %lld positions: max |d logit| / max |logit| %.2e, mean KL "
      "%.2e nats, %d of %lld most probable tokens equal\n",
      cpu->executor().info().name.c_str(), static_cast<long long>(kLength), worst,
      divergence / kLength, equal, static_cast<long long>(kLength));
  if (!(worst <= kBound)) return Internal(StrCat("logits are off by ", worst, ", bound ", kBound));
  const auto same = [&](std::span<const float> row, int64_t position) {
    return std::memcmp(row.data(), whole.data() + static_cast<size_t>(position) * vocab,
                       vocab * sizeof(float)) == 0;
  };
  for (int64_t i = 0; i < kLength; ++i) {
    ERNE_ASSIGN_OR_RETURN(const auto row, gpu.Run(1, i, 1, SequenceRows::Logits::kLast));
    if (!same(row, i)) return Internal(StrCat("position ", i, " differs alone and in a prompt"));
  }
  for (const int64_t beside : {int64_t{2}, int64_t{9}, int64_t{17}, int64_t{64}, int64_t{200}}) {
    if (beside > gpu.executor().limits().max_sequences) break;
    ERNE_RETURN_IF_ERROR(gpu.Prefill(beside, 20));
    ERNE_ASSIGN_OR_RETURN(const auto rows, gpu.Run(beside, 20, 1, SequenceRows::Logits::kLast));
    if (!same(rows.first(vocab), 20)) {
      return Internal(StrCat("position 20 differs beside ", beside - 1, " other sequences"));
    }
  }
  std::printf("bit-identical in a prompt, alone, and beside up to 199 others\n");
  return {};
}

// Median seconds of a call.
template <typename Body>
Result<double> Time(int64_t runs, const Body& body) {
  std::vector<double> seconds;
  for (int64_t i = -3; i < runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto run = body();
    if (!run.ok()) return run.status();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (i >= 0) seconds.push_back(taken.count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[static_cast<size_t>(runs / 2)];
}

struct Bytes {
  double weights = 0;   // read by a step, the head among them
  double position = 0;  // of keys and values
  double rate = 0;      // bytes a second
};

Status TimeDecode(Steps& gpu, const Bytes& bytes, int64_t sequences, int64_t depth, int64_t runs) {
  ERNE_RETURN_IF_ERROR(gpu.Prefill(sequences, depth));
  ERNE_ASSIGN_OR_RETURN(const double seconds, Time(runs, [&] {
                          return gpu.Run(sequences, depth, 1, SequenceRows::Logits::kToken);
                        }));
  const double floor =
      (bytes.weights + static_cast<double>(sequences * depth) * bytes.position) / bytes.rate;
  std::printf(
      "decode  %4lld x depth %-5lld %9.1f us a step  %9.0f tok/s  floor %6.1f us  %5.1f %%\n",
      static_cast<long long>(sequences), static_cast<long long>(depth), seconds * 1e6,
      static_cast<double>(sequences) / seconds, floor * 1e6, 100 * floor / seconds);
  return {};
}

Status TimePrefill(Steps& gpu, int64_t length, int64_t runs) {
  ERNE_ASSIGN_OR_RETURN(const double seconds, Time(runs, [&] {
                          return gpu.Run(1, 0, length, SequenceRows::Logits::kToken);
                        }));
  const ModelSpec& spec = gpu.executor().spec();
  const AttentionSpec& a = spec.attention;
  const double layer =
      static_cast<double>(spec.hidden) * static_cast<double>(2 * a.q_width() + 2 * a.kv_width()) +
      3.0 * static_cast<double>(spec.hidden * spec.dense_intermediate);
  const double attention = static_cast<double>(a.q_width()) * static_cast<double>(length + 1);
  const double operations =
      2 * static_cast<double>(length * spec.num_layers()) * (layer + attention);
  std::printf("prefill %4lld tokens      %9.1f us a step  %9.0f tok/s  %5.0f TFLOP/s\n",
              static_cast<long long>(length), seconds * 1e6, static_cast<double>(length) / seconds,
              operations / seconds * 1e-12);
  return {};
}

// One step of each kind, for a profiler.
Status Profile(Steps& gpu) {
  const auto step = [&](int64_t sequences, int64_t start, int64_t rows) -> Status {
    ERNE_RETURN_IF_ERROR(gpu.Prefill(sequences, start));
    ProfilerStart();
    const auto run = gpu.Run(sequences, start, rows, SequenceRows::Logits::kToken);
    ProfilerStop();
    return run.status();
  };
  ERNE_RETURN_IF_ERROR(step(1, 0, 2048));
  ERNE_RETURN_IF_ERROR(step(1, 32, 1));
  ERNE_RETURN_IF_ERROR(step(1, 2048, 1));
  return step(64, 192, 1);
}

Status Bench(const Options& options) {
  const RandomModel random(options.weights);
  const std::shared_ptr<const Model> model = random.model();
  const auto begin = std::chrono::steady_clock::now();
  ERNE_ASSIGN_OR_RETURN(const auto gpu, Steps::Make("cuda", model, kMostRows,
                                                    options.quick ? 64 : kMostSequences, kContext));
  const std::chrono::duration<double> loading = std::chrono::steady_clock::now() - begin;
  const ExecutorInfo info = gpu->executor().info();
  std::printf("%s, weights %s (%s), keys and values %s (%s), workspace %s; ready in %.2f s\n",
              info.name.c_str(), options.weights.c_str(), FormatBytes(info.weight_bytes).c_str(),
              info.kv_type.c_str(), FormatBytes(info.kv_bytes).c_str(),
              FormatBytes(info.workspace_bytes).c_str(), loading.count());
  const SamplingParams timed = {.temperature = options.greedy ? 0.0F : 0.6F};
  gpu->Choose(timed);
  if (options.profile) return Profile(*gpu);
  ERNE_RETURN_IF_ERROR(Verify(*gpu, model));
  ERNE_RETURN_IF_ERROR(VerifySampling(*gpu));
  gpu->Choose(timed);
  Bytes bytes;
  ERNE_ASSIGN_OR_RETURN(bytes.rate, MeasureReadBandwidth());
  bytes.weights = static_cast<double>(MeasureModel(*model).weight_bytes);
  bytes.position = static_cast<double>(KvBlockBytes(model->spec, KvDType::kF16)) /
                   static_cast<double>(kKvBlockSize);
  std::printf("read bandwidth %.2f TB/s\n", bytes.rate * 1e-12);
  for (const int64_t depth : {32, 512, 2048}) {
    ERNE_RETURN_IF_ERROR(TimeDecode(*gpu, bytes, 1, depth, 2 * options.steps));
  }
  for (const int64_t sequences : {2, 4, 8, 16, 32, 64, 128, 256}) {
    if (sequences > gpu->executor().limits().max_sequences) break;
    ERNE_RETURN_IF_ERROR(TimeDecode(*gpu, bytes, sequences, 192, options.steps));
  }
  for (const int64_t length : {128, 512, 1024, 2048}) {
    ERNE_RETURN_IF_ERROR(TimePrefill(*gpu, length, options.steps / 3));
  }
  return {};
}

int Main(const std::vector<std::string>& arguments) {
  Options options;
  FlagTable flags("erne_bench_gpu [flags]", {"Verifies and times the steps of the CUDA executor",
                                             "检验并测量 CUDA 后端的每一步"});
  flags.Add("weights", &options.weights, "TYPE", {"Type of the random weights", "随机权重的类型"})
      .Choices({"bf16", "f16", "int4"});
  flags.Add("steps", &options.steps, "N", {"Steps of which the median counts", "取中位数的步数"})
      .Range(9, 100000);
  flags.Add("quick", &options.quick, {"At most 64 sequences", "最多 64 个序列"});
  flags.Add("greedy", &options.greedy, {"Choose the most probable tokens", "选取概率最大的词元"});
  flags.Add("profile", &options.profile,
            {"No verifying and no timing: a few steps for a profiler",
             "不检验也不计时：只运行几步，供性能分析器使用"});
  Status status = flags.Parse(arguments);
  if (flags.help_requested()) {
    std::fputs(flags.Help(UserLanguage()).c_str(), stdout);
    return 0;
  }
  if (status.ok()) status = Bench(options);
  if (!status.ok()) {
    std::fprintf(stderr, "erne_bench_gpu: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace erne

int main(int argc, char** argv) { return erne::Main({argv + 1, argv + argc}); }
