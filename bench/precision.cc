// erne_bench_precision: what each type of keys and values, of activations and of rounded weights
// costs and gains on a model.
//
//   erne_bench_precision [MODEL] [--ids-file FILE] [--positions N] [--threads N]
//
// For each: over the first N positions of a text the KL divergence from the reference executor
// (which computes in float32 what the checkpoint stores), how often both find the same token most
// probable, and the largest logit error as a share of the largest logit; bytes of weights, bytes a
// token of keys and values; and the speed of decoding one sequence at two depths.
//
// The text is that of --ids-file, or else one that the model writes itself, sampled at temperature
// 1 with a fixed seed: a text that it finds as likely as any, whatever it was trained on, and the
// same at every run.
//
// Nothing is timed before it is verified: float32 keys and values within the project's bound of the
// reference executor, and each decoded step bit-identical to the same position computed in a
// prompt. The types take turns in the timing, so that a noisy machine is noisy for all of them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file_set.h"
#include "base/status.h"
#include "base/strings.h"
#include "bench/agreement.h"
#include "bench/roof.h"
#include "cli/flags.h"
#include "cli/make_executor.h"
#include "cli/read_input.h"
#include "cli/token_ids.h"
#include "executor/executor.h"
#include "executor/kv_storage.h"
#include "kv/block_pool.h"
#include "model/model.h"
#include "sampling/sampler.h"

namespace erne {
namespace {

// What is measured: one thing at a time against float32.
struct Types {
  const char* name;
  KvDType kv;
  Precision precision;
};
constexpr Precision kFloats{.activation = ActivationDType::kF32};
constexpr Precision kInt8Weights{.activation = ActivationDType::kF32,
                                 .quantization = Quantization::kInt8};
constexpr Precision kInt4Weights{.activation = ActivationDType::kF32,
                                 .quantization = Quantization::kInt4};
constexpr Precision kInt8All{.activation = ActivationDType::kAuto,
                             .quantization = Quantization::kInt8};
constexpr Precision kInt4All{.activation = ActivationDType::kAuto,
                             .quantization = Quantization::kInt4};
constexpr Types kTypes[] = {{"float32", KvDType::kF32, kFloats},
                            {"keys and values bf16", KvDType::kBF16, kFloats},
                            {"keys and values f16", KvDType::kF16, kFloats},
                            {"keys and values int8", KvDType::kInt8, kFloats},
                            {"activations auto", KvDType::kF32, {}},
                            {"float weights to int8", KvDType::kF32, kInt8Weights},
                            {"float weights to int8, activations auto", KvDType::kF32, kInt8All},
                            {"float weights to int4", KvDType::kF32, kInt4Weights},
                            {"float weights to int4, activations auto", KvDType::kF32, kInt4All}};
constexpr int64_t kDepths[] = {256, 1024};
constexpr int64_t kSteps = 24;  // timed at each depth, one turn
constexpr int kTurns = 7;       // of which the median counts
constexpr int64_t kRows = 128;  // of a prompt computed at once
constexpr uint64_t kSeed = 20;
// Of max |d logit| / max |logit| between two float32 executors: tests/golden/tolerance.h.
constexpr double kFloatBound = 1e-4;

struct Options {
  std::vector<std::string> model;
  std::string ids_file;
  int64_t positions = 512;
  int64_t threads = 0;
};

// An executor with one sequence in it: block i holds the positions from 16 i on.
class OneSequence {
 public:
  static Result<OneSequence> Make(const std::string& name, std::shared_ptr<const Model> model,
                                  int64_t context, const Types& types, int64_t threads) {
    ExecutorLimits limits;
    limits.max_rows = limits.max_logit_rows = std::min(kRows, context);
    limits.max_sequences = 1;
    limits.max_context = context;
    limits.num_blocks = BlocksForTokens(context);
    limits.kv_dtype = types.kv;
    OneSequence made;
    ExecutorSettings settings;
    settings.threads = static_cast<int>(threads);
    settings.precision = types.precision;
    ERNE_ASSIGN_OR_RETURN(made.executor_, MakeExecutor(name, std::move(model), limits, settings));
    made.blocks_.resize(static_cast<size_t>(limits.num_blocks));
    std::iota(made.blocks_.begin(), made.blocks_.end(), 0);
    return made;
  }

  // The logits of tokens at [start, start + count), all rows or the last.
  Result<std::span<const float>> Run(std::span<const int32_t> tokens, int64_t start,
                                     SequenceRows::Logits logits = SequenceRows::Logits::kAll) {
    return executor_->Run({{start, tokens, blocks_, logits}});
  }
  // Computes the text up to `end`; gives `body` the logits of each position.
  template <typename Body>
  Status Prefill(std::span<const int32_t> text, int64_t end, const Body& body) {
    const auto vocab = static_cast<size_t>(spec().vocab_size);
    for (int64_t start = 0; start < end; start += kRows) {
      const int64_t count = std::min(kRows, end - start);
      ERNE_ASSIGN_OR_RETURN(
          const std::span<const float> logits,
          Run(text.subspan(static_cast<size_t>(start), static_cast<size_t>(count)), start));
      for (int64_t i = 0; i < count; ++i) {
        body(start + i, logits.subspan(static_cast<size_t>(i) * vocab, vocab));
      }
    }
    return {};
  }
  const ModelSpec& spec() const { return executor_->spec(); }
  ExecutorInfo info() const { return executor_->info(); }

 private:
  std::unique_ptr<Executor> executor_;
  std::vector<BlockId> blocks_;
};

// What the model writes after its first token.
Result<std::vector<int32_t>> WriteText(OneSequence& sequence, int64_t length) {
  const ModelSpec& spec = sequence.spec();
  SamplingParams params;
  params.temperature = 1;
  params.seed = kSeed;
  std::vector<int32_t> text = {static_cast<int32_t>(std::max<int64_t>(0, spec.bos_token))};
  RequestSampler sampler(params, spec.vocab_size, text);
  SamplerScratch scratch(spec.vocab_size);
  // A text does not end before it is long enough.
  const std::vector<int32_t> banned(spec.eos_tokens.begin(), spec.eos_tokens.end());
  while (static_cast<int64_t>(text.size()) < length) {
    const int64_t position = static_cast<int64_t>(text.size()) - 1;
    ERNE_ASSIGN_OR_RETURN(const std::span<const float> logits,
                          sequence.Run({&text.back(), 1}, position));
    SamplePoint point;
    point.position = text.size();
    point.bans.banned = banned;
    ERNE_ASSIGN_OR_RETURN(const SampledToken token, sampler.Sample(logits, point, scratch));
    text.push_back(token.token);
  }
  return text;
}

// Types under measurement.
struct Candidate {
  const Types* types;
  OneSequence sequence;
  bench::Agreement accuracy;
  std::vector<std::vector<double>> seconds;  // [depths][turns], of one step
};

// Compares with `expected`, the reference's logits [positions, vocab], and fills the cache with the
// whole text on the way.
Status MeasureAccuracy(std::span<const int32_t> text, const std::vector<float>& expected,
                       Candidate& candidate) {
  const auto vocab = static_cast<size_t>(candidate.sequence.spec().vocab_size);
  const auto add = [&](int64_t position, std::span<const float> logits) {
    const size_t begin = static_cast<size_t>(position) * vocab;
    if (begin >= expected.size()) return;
    candidate.accuracy.Add(std::span(expected).subspan(begin, vocab), logits);
  };
  ERNE_RETURN_IF_ERROR(candidate.sequence.Prefill(text, static_cast<int64_t>(text.size()), add));
  const double error = candidate.accuracy.worst_error;
  // Not <=: a NaN is no agreement.
  if (candidate.types == &kTypes[0] && !(error <= kFloatBound)) {
    return Internal(StrCat("float32 differs from the reference executor by ", error,
                           " of the largest logit, more than ", kFloatBound));
  }
  return {};
}

// Decoding the text's own tokens gives what computing them as a prompt gave. The cache holds the
// text; each step writes what is there already.
Status VerifyDecode(std::span<const int32_t> text, int64_t depth, Candidate& candidate) {
  const auto start = static_cast<size_t>(depth);
  const auto count = static_cast<size_t>(kSteps);
  ERNE_ASSIGN_OR_RETURN(const std::span<const float> rows,
                        candidate.sequence.Run(text.subspan(start, count), depth));
  const std::vector<float> expected(rows.begin(), rows.end());
  const auto vocab = static_cast<size_t>(candidate.sequence.spec().vocab_size);
  for (size_t i = 0; i < count; ++i) {
    ERNE_ASSIGN_OR_RETURN(
        const std::span<const float> row,
        candidate.sequence.Run(text.subspan(start + i, 1), depth + static_cast<int64_t>(i)));
    if (std::memcmp(row.data(), expected.data() + i * vocab, vocab * sizeof(float)) != 0) {
      return Internal(StrCat(candidate.types->name, ": decoding position ", start + i,
                             " gives other logits than computing it in a prompt"));
    }
  }
  return {};
}

// Seconds of one step at `depth`.
Result<double> TimeDecode(std::span<const int32_t> text, int64_t depth, Candidate& candidate) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < kSteps; ++i) {
    ERNE_RETURN_IF_ERROR(
        candidate.sequence.Run(text.subspan(static_cast<size_t>(depth + i), 1), depth + i)
            .status());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return seconds.count() / static_cast<double>(kSteps);
}

void Print(const std::vector<int64_t>& depths, const std::vector<Candidate>& candidates) {
  std::printf(
      "| what | weights, MB | KV bytes a token | mean KL, nats | worst KL | same token | worst "
      "error |");
  for (const int64_t depth : depths) std::printf(" tok/s at %lld |", static_cast<long long>(depth));
  std::printf("\n| --- | --- | --- | --- | --- | --- | --- |");
  for (size_t i = 0; i < depths.size(); ++i) std::printf(" --- |");
  std::printf("\n");
  for (const Candidate& c : candidates) {
    const bench::Agreement& a = c.accuracy;
    const auto positions = static_cast<double>(a.positions);
    std::printf("| %s | %.1f | %llu | %.2e | %.2e | %.2f %% | %.1e |", c.types->name,
                static_cast<double>(c.sequence.info().weight_bytes) / 1e6,
                static_cast<unsigned long long>(KvBlockBytes(c.sequence.spec(), c.types->kv) /
                                                kKvBlockSize),
                a.mean_kl(), a.worst_kl, 100 * static_cast<double>(a.same_token) / positions,
                a.worst_error);
    for (const std::vector<double>& seconds : c.seconds) {
      const auto [low, high] = std::minmax_element(seconds.begin(), seconds.end());
      std::printf(" %.1f (%.1f-%.1f) |", 1 / bench::Median(seconds), 1 / *high, 1 / *low);
    }
    std::printf("\n");
  }
}

Result<std::vector<int32_t>> TextOf(const Options& options,
                                    const std::shared_ptr<const Model>& model, int64_t length) {
  if (options.ids_file.empty()) {
    ERNE_ASSIGN_OR_RETURN(OneSequence writer,
                          OneSequence::Make("cpu", model, length, kTypes[0], options.threads));
    return WriteText(writer, length);
  }
  constexpr size_t kMaxBytes = size_t{1} << 20;
  ERNE_ASSIGN_OR_RETURN(const std::string ids,
                        ReadInput("--ids-file", options.ids_file, kMaxBytes));
  ERNE_ASSIGN_OR_RETURN(std::vector<int32_t> text,
                        ParseTokenIds("--ids-file", ids, model->spec.vocab_size));
  text.resize(std::min(text.size(), static_cast<size_t>(length)));
  return text;
}

// The reference's logits of the first `positions` tokens.
Result<std::vector<float>> ReferenceLogits(const std::shared_ptr<const Model>& model,
                                           std::span<const int32_t> text, int64_t positions) {
  ERNE_ASSIGN_OR_RETURN(OneSequence reference,
                        OneSequence::Make("reference", model, positions, kTypes[0], 1));
  std::vector<float> all;
  ERNE_RETURN_IF_ERROR(
      reference.Prefill(text, positions, [&](int64_t, std::span<const float> logits) {
        all.insert(all.end(), logits.begin(), logits.end());
      }));
  return all;
}

Status Measure(const Options& options) {
  const std::string folder = options.model.empty() ? ERNE_MINI : options.model[0];
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<const FileSet> files, OpenFolder(folder));
  ERNE_ASSIGN_OR_RETURN(Model loaded, LoadModel(files));
  const auto model = std::make_shared<const Model>(std::move(loaded));
  const int64_t longest = *std::max_element(std::begin(kDepths), std::end(kDepths)) + kSteps;
  ERNE_ASSIGN_OR_RETURN(const std::vector<int32_t> text,
                        TextOf(options, model, std::min(longest, model->spec.max_positions)));
  const auto length = static_cast<int64_t>(text.size());
  const int64_t positions = std::min(options.positions, length);
  ERNE_ASSIGN_OR_RETURN(const std::vector<float> expected, ReferenceLogits(model, text, positions));

  std::vector<int64_t> depths;
  for (const int64_t depth : kDepths) {
    if (depth + kSteps <= length) depths.push_back(depth);
  }
  std::vector<Candidate> candidates;
  for (const Types& types : kTypes) {
    ERNE_ASSIGN_OR_RETURN(OneSequence sequence,
                          OneSequence::Make("cpu", model, length, types, options.threads));
    candidates.push_back({&types, std::move(sequence), {}, {}});
    candidates.back().seconds.resize(depths.size());
    ERNE_RETURN_IF_ERROR(MeasureAccuracy(text, expected, candidates.back()));
    for (const int64_t depth : depths) {
      ERNE_RETURN_IF_ERROR(VerifyDecode(text, depth, candidates.back()));
    }
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t d = 0; d < depths.size(); ++d) {
      for (Candidate& candidate : candidates) {
        ERNE_ASSIGN_OR_RETURN(const double seconds, TimeDecode(text, depths[d], candidate));
        candidate.seconds[d].push_back(seconds);
      }
    }
  }
  std::printf(
      "%s (%s) on %s; %lld positions; medians of %d turns, with the slowest and fastest\n\n",
      folder.c_str(), model->precision.c_str(), candidates[0].sequence.info().name.c_str(),
      static_cast<long long>(positions), kTurns);
  Print(depths, candidates);
  return {};
}

int Main(const std::vector<std::string>& arguments) {
  Options options;
  FlagTable flags(
      "erne_bench_precision [MODEL] [flags]",
      {"Measures what each type of keys and values costs and gains on a model (default: "
       "erne-mini).",
       "测量各种 KV 缓存数据类型的精度与速度（默认模型：erne-mini）。"});
  flags.Positional(&options.model, 1);
  flags.Add("ids-file", &options.ids_file, "FILE",
            {"Token ids of the text; none: the model writes one",
             "文本的 token id 文件；不给则由模型自己写一段"});
  flags
      .Add("positions", &options.positions, "N",
           {"Positions compared with the reference executor", "与参考后端比较的位置数"})
      .Range(1, 1 << 20);
  flags.Add("threads", &options.threads, "N", {"Threads; 0: all", "线程数；0 表示全部"})
      .Range(0, 4096);
  if (const Status status = flags.Parse(arguments); !status.ok()) {
    std::fprintf(stderr, "erne_bench_precision: %s\n", status.message().c_str());
    return 2;
  }
  if (flags.help_requested()) {
    std::fputs(flags.Help(UserLanguage()).c_str(), stdout);
    return 0;
  }
  if (const Status status = Measure(options); !status.ok()) {
    std::fprintf(stderr, "erne_bench_precision: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace erne

int main(int argc, char** argv) { return erne::Main({argv + 1, argv + argc}); }
