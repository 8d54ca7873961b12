#include "executor/cpu/gemm_runner.h"

#include <algorithm>

#include "base/check.h"

namespace erne::cpu {
namespace {

// Tasks per thread that a loop aims at: enough that a thread which lost its core for a while costs
// little.
constexpr int64_t kTasksPerThread = 4;
// Panels of a task when its weights pass once: more would only make the last task end later.
constexpr int64_t kMaxPanels = 64;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

GemmRunner::GemmRunner(const Kernels& kernels, ThreadPool& pool, int64_t max_jobs,
                       int64_t max_groups, int64_t max_permuted_cols, Workspace& workspace)
    : kernels_(kernels), pool_(pool), scratch_(static_cast<size_t>(pool.threads())) {
  jobs_.reserve(static_cast<size_t>(max_jobs));
  const int64_t permuted_stride = RoundUp(max_permuted_cols, kLanes);
  for (GemmScratch& scratch : scratch_) {
    workspace.Add(&scratch.tile, {kRowGroup, kTileWidth});
    scratch.sums_stride = max_groups;
    scratch.permuted_stride = permuted_stride;
    for (int slot = 0; slot < 2; ++slot) {
      workspace.Add(&scratch.sums[slot], {kRowGroup, max_groups});
      workspace.Add(&scratch.permuted[slot], {kRowGroup, permuted_stride});
    }
  }
}

void GemmRunner::Add(const GemmJob& job) {
  if (job.rows == 0) return;
  ERNE_CHECK(jobs_.size() < jobs_.capacity())
      << "more than " << jobs_.capacity() << " products in one loop";
  Cut cut;
  cut.job = job;
  jobs_.push_back(cut);
}

// The cuts change speed alone: what an output is made of does not depend on its task.
int64_t GemmRunner::CutJobs() {
  int64_t panels = 0;
  for (const Cut& cut : jobs_) panels += cut.job.matrix->panels();
  const int64_t wanted = kTasksPerThread * pool_.threads();
  const int64_t fair = std::min(kMaxPanels, RoundUp(CeilDiv(panels, wanted), kTilePanels));
  int64_t tasks = 0;
  for (Cut& cut : jobs_) {
    const int64_t rows = cut.job.rows;
    // Several row groups walk the same weights: a task of one tile keeps them in cache meanwhile.
    cut.panels_per_task = rows > kRowGroup ? kTilePanels : fair;
    const int64_t panel_chunks = CeilDiv(cut.job.matrix->panels(), cut.panels_per_task);
    // A narrow matrix has too few tiles for all threads: cut the rows too.
    const int64_t row_parts = CeilDiv(wanted, panel_chunks);
    cut.rows_per_task = RoundUp(CeilDiv(rows, row_parts), kRowGroup);
    cut.row_chunks = CeilDiv(rows, cut.rows_per_task);
    cut.first_task = tasks;
    tasks += panel_chunks * cut.row_chunks;
  }
  return tasks;
}

void GemmRunner::RunTask(int64_t task, int worker) const {
  const auto next =
      std::upper_bound(jobs_.begin(), jobs_.end(), task,
                       [](int64_t wanted, const Cut& cut) { return wanted < cut.first_task; });
  const Cut& cut = *(next - 1);
  const GemmJob& job = cut.job;
  const int64_t index = task - cut.first_task;
  const int64_t row = index % cut.row_chunks * cut.rows_per_task;
  const int64_t panel = index / cut.row_chunks * cut.panels_per_task;
  GemmTask out;
  out.epilogue = job.epilogue;
  out.matrix = &job.matrix->ref();
  out.up = job.up == nullptr ? nullptr : &job.up->ref();
  out.panel_begin = panel;
  out.panel_end = std::min(panel + cut.panels_per_task, job.matrix->panels());
  out.rows = std::min(cut.rows_per_task, job.rows - row);
  out.x = job.x_rows == nullptr ? job.x + row * job.x_stride : job.x;
  out.x_stride = job.x_stride;
  out.x_rows = job.x_rows == nullptr ? nullptr : job.x_rows + row;
  out.y = job.y + row * job.y_stride;
  out.y_stride = job.y_stride;
  out.scratch = &scratch_[static_cast<size_t>(worker)];
  kernels_.gemm(out);
}

void GemmRunner::Run() {
  pool_.ParallelFor(CutJobs(), 1, [this](int64_t begin, int64_t end, int worker) {
    for (int64_t task = begin; task < end; ++task) RunTask(task, worker);
  });
  jobs_.clear();
}

}  // namespace erne::cpu
