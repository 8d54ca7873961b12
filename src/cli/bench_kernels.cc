#include "cli/bench_kernels.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "bench/sequences.h"
#include "cli/bench_session.h"
#include "cli/command.h"

namespace erne {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 20;
// Rows of a step that have logits: of more, the logits alone would take hundreds of megabytes.
constexpr int64_t kMostHeadRows = 64;

struct KernelsOptions {
  BenchOptions common;
  std::vector<std::string> rows = {"1", "2", "4", "8", "16", "64", "512"};
  std::vector<std::string> depth = {"512", "2048"};
  int64_t steps = 3;
};

constexpr const char* kStageNames[StepProfile::kStages] = {
    "q, k, v", "attention", "o", "router", "gate, up", "down", "head", "the rest"};

// Steps of one kind: `rows` rows of a sequence behind `depth` others.
struct StepKind {
  int64_t rows = 1;
  int64_t depth = 0;

  int64_t logit_rows() const { return std::min(rows, kMostHeadRows); }
  bench::StepRows work() const {
    bench::StepRows step;
    step.rows = static_cast<double>(rows);
    step.logit_rows = static_cast<double>(logit_rows());
    step.kv_read = static_cast<double>(depth + rows);
    step.attended = step.rows * (static_cast<double>(depth) + (step.rows + 1) / 2);
    return step;
  }
  std::string Name(StepProfile::Stage stage) const {
    const int64_t count = stage == StepProfile::kHead ? logit_rows() : rows;
    return StrCat(kStageNames[stage], ", ", count, count == 1 ? " row" : " rows",
                  depth > 0 ? StrCat(" at depth ", depth) : "");
  }
};

// Runs `steps` steps of the kind, and keeps what they took. With `logits` of the last
// kMostHeadRows rows at most: the rows before them come in a batch entry of their own.
Result<StepProfile> Profile(bench::Sequences& sequences, Executor& executor, const StepKind& kind,
                            int64_t steps) {
  StepProfile profile;
  executor.SetProfile(&profile);
  const Status status = sequences.Rows(kind.depth, kind.rows, kind.logit_rows(), steps);
  executor.SetProfile(nullptr);
  if (!status.ok()) return status;
  return profile;
}

// A case for each stage; the first of them runs the steps, the others tell what they took.
void AddCases(const StepKind& kind, const std::vector<StepProfile::Stage>& stages, int64_t steps,
              bench::Sequences& sequences, BenchSession& session, std::vector<bench::Case>& cases) {
  const auto profile = std::make_shared<StepProfile>();
  for (const StepProfile::Stage stage : stages) {
    bench::Case made;
    made.name = kind.Name(stage);
    const auto count = static_cast<double>(steps);
    made.tokens = count * static_cast<double>(kind.rows);
    made.bytes = count * session.work().Bytes(stage, kind.work());
    made.operations = count * session.work().Operations(stage, kind.work());
    const bool first = stage == stages.front();
    made.run = [&sequences, &session, kind, steps, profile, stage, first]() -> Result<double> {
      if (first) {
        ERNE_ASSIGN_OR_RETURN(*profile, Profile(sequences, session.executor(), kind, steps));
      }
      return profile->seconds[stage];
    };
    cases.push_back(std::move(made));
  }
}

std::vector<StepProfile::Stage> StagesOf(const ModelSpec& spec) {
  std::vector<StepProfile::Stage> stages = {StepProfile::kQkv, StepProfile::kAttention,
                                            StepProfile::kOutput};
  if (spec.has_moe()) stages.push_back(StepProfile::kRouter);
  stages.insert(stages.end(), {StepProfile::kGateUp, StepProfile::kDown, StepProfile::kHead,
                               StepProfile::kOther});
  return stages;
}

Status MeasureKernels(const FlagTable& flags, const KernelsOptions& options,
                      const OpenModel& open) {
  ERNE_ASSIGN_OR_RETURN(const std::vector<int64_t> rows,
                        ParseNumbers("--rows", options.rows, 1, kMaxTokens));
  ERNE_ASSIGN_OR_RETURN(const std::vector<int64_t> depths,
                        ParseNumbers("--depth", options.depth, 1, kMaxTokens));
  const int64_t most_rows = *std::max_element(rows.begin(), rows.end());
  const int64_t deepest = *std::max_element(depths.begin(), depths.end());
  ExecutorLimits limits;
  limits.max_context = std::max(most_rows, deepest + 1);
  limits.max_rows = std::max<int64_t>(most_rows, std::min<int64_t>(512, deepest));
  limits.max_logit_rows = std::min(most_rows, kMostHeadRows);
  limits.max_sequences = 2;
  limits.num_blocks = bench::Sequences::Blocks(1, limits.max_context);
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<BenchSession> session,
                        BenchSession::Start("bench kernels", flags, options.common, open, limits));
  bench::Sequences sequences(session->executor(), 1, limits.max_context,
                             static_cast<uint64_t>(session->seed()));
  ERNE_RETURN_IF_ERROR(sequences.Prefill(1, deepest));
  const std::vector<StepProfile::Stage> stages = StagesOf(session->executor().spec());
  std::vector<bench::Case> cases;
  for (const int64_t count : rows) {
    AddCases({.rows = count}, stages, options.steps, sequences, *session, cases);
  }
  for (const int64_t depth : depths) {
    AddCases({.rows = 1, .depth = depth}, {StepProfile::kAttention}, options.steps, sequences,
             *session, cases);
  }
  return session->Time(std::move(cases));
}

}  // namespace

int RunBenchKernels(const std::vector<std::string>& arguments, const BenchDoors& doors) {
  constexpr const char* kCommand = "bench kernels";
  KernelsOptions options;
  FlagTable flags(
      "erne bench kernels [MODEL] [flags]",
      {"Times the stages of a step, all layers together, within whole steps: the products of each "
       "kind for given numbers of rows, and attention at given depths. Verifies against the "
       "reference executor first. tok/s is what the stage alone would allow.",
       "在完整的步骤中测量各个阶段（所有层合计）：给定行数下的各类矩阵乘，以及给定深度处的注意力。"
       "先与参考后端核对结果，再计时。tok/s 是仅有该阶段时的速度。"});
  flags.Add("rows", &options.rows, "N...", {"Rows of a step", "每步的行数"});
  flags.Add("depth", &options.depth, "N...",
            {"Tokens before the row whose attention is timed", "测量注意力时该行之前的 token 数"});
  flags.Add("steps", &options.steps, "N", {"Steps of each kind in a turn", "每轮中每种步骤的次数"})
      .Range(1, 1e6);
  AddBenchFlags(flags, options.common);
  if (const std::optional<int> end = ParseOrEnd(kCommand, flags, arguments)) return *end;
  const Status status = MeasureKernels(flags, options, doors.open);
  if (status.ok()) return 0;
  return Fail(kCommand, status, status.param().empty() ? 1 : 2);
}

}  // namespace erne
