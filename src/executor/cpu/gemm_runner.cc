#include "executor/cpu/gemm_runner.h"

#include <algorithm>

#include "base/check.h"
#include "executor/cpu/activation_form.h"

namespace erne::cpu {
namespace {

// Rows whose activations one thread prepares at once: a row takes less than a microsecond, so fewer
// do not pay for waking the others.
constexpr int64_t kRowGrain = 16;
// Tasks per thread that a loop aims at: enough that a thread which lost its core for a while costs
// little.
constexpr int64_t kTasksPerThread = 4;
// Panels of a task when its weights pass once: more would only make the last task end later.
constexpr int64_t kMaxPanels = 64;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

GemmRunner::GemmRunner(const Kernels& kernels, ThreadPool& pool, const GemmLimits& limits,
                       Workspace& workspace)
    : kernels_(kernels),
      pool_(pool),
      limits_(limits),
      scratch_(static_cast<size_t>(pool.threads())),
      ordered_(static_cast<size_t>(pool.threads())) {
  jobs_.reserve(static_cast<size_t>(limits.max_jobs));
  sources_.reserve(static_cast<size_t>(2 * limits.max_jobs));
  workspace.Add(&prepared_, {limits.max_rows, limits.max_row_bytes});
  for (GemmScratch& scratch : scratch_) {
    workspace.Add(&scratch.tile, {2, kRowGroup, kTileWidth});
    workspace.Add(&scratch.bytes, {kTilePanels, kUnpackBytes});
  }
  for (float*& ordered : ordered_) workspace.Add(&ordered, {limits.max_cols});
}

void GemmRunner::Add(const GemmJob& job) {
  if (job.rows == 0) return;
  ERNE_CHECK(jobs_.size() < jobs_.capacity())
      << "more than " << jobs_.capacity() << " products in one loop";
  Cut cut;
  cut.job = job;
  const MatrixRef& matrix = job.matrix->ref();
  // Rows of both matrices are named alike: gathered for both, or for none.
  const bool gather =
      job.x_rows != nullptr &&
      (NeedsPreparing(matrix) || (job.up != nullptr && NeedsPreparing(job.up->ref())));
  cut.x = Prepared(job, matrix, gather);
  if (job.up != nullptr) cut.up_x = Prepared(job, job.up->ref(), gather);
  if (gather) cut.job.x_rows = nullptr;
  jobs_.push_back(cut);
}

Activations GemmRunner::Prepared(const GemmJob& job, const MatrixRef& matrix, bool gather) {
  if (!gather && !NeedsPreparing(matrix)) {
    Activations plain;
    plain.data = reinterpret_cast<const unsigned char*>(job.x);
    plain.stride = job.x_stride * static_cast<int64_t>(sizeof(float));
    return plain;
  }
  for (const Source& source : sources_) {
    const PrepareTask& task = source.task;
    if (task.x == job.x && task.x_rows == job.x_rows && source.rows == job.rows &&
        SameActivations(*task.matrix, matrix)) {
      return task.form;
    }
  }
  Source source;
  source.rows = job.rows;
  source.first_row = prepared_rows_;
  PrepareTask& task = source.task;
  task.matrix = &matrix;
  task.x = job.x;
  task.x_stride = job.x_stride;
  task.x_rows = job.x_rows;
  task.form = FormOf(matrix, kernels_.bf16_products);
  task.out = prepared_ + prepared_bytes_;
  task.form.data = task.out;
  prepared_bytes_ += job.rows * task.form.stride;
  prepared_rows_ += job.rows;
  ERNE_CHECK(prepared_bytes_ <= limits_.max_rows * limits_.max_row_bytes &&
             sources_.size() < sources_.capacity())
      << "more activations in one loop than " << limits_.max_rows << " rows";
  sources_.push_back(source);
  return task.form;
}

void GemmRunner::PrepareRows() {
  const int64_t grain = std::max(kRowGrain, prepared_rows_ / (4 * pool_.threads()));
  pool_.ParallelFor(prepared_rows_, grain, [this](int64_t begin, int64_t end, int worker) {
    for (const Source& source : sources_) {
      PrepareTask task = source.task;
      task.row_begin = std::max<int64_t>(0, begin - source.first_row);
      task.row_end = std::min(source.rows, end - source.first_row);
      if (task.row_begin >= task.row_end) continue;
      task.ordered = ordered_[static_cast<size_t>(worker)];
      kernels_.prepare(task);
    }
  });
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
  out.x = cut.x;
  out.up_x = cut.up_x;
  if (job.x_rows != nullptr) {
    out.x_rows = job.x_rows + row;
  } else {
    out.x.data += row * out.x.stride;
    out.up_x.data += row * out.up_x.stride;
  }
  out.y = job.y + row * job.y_stride;
  out.y_stride = job.y_stride;
  out.scratch = &scratch_[static_cast<size_t>(worker)];
  kernels_.gemm(out);
}

void GemmRunner::Run() {
  PrepareRows();
  pool_.ParallelFor(CutJobs(), 1, [this](int64_t begin, int64_t end, int worker) {
    for (int64_t task = begin; task < end; ++task) RunTask(task, worker);
  });
  jobs_.clear();
  sources_.clear();
  prepared_bytes_ = 0;
  prepared_rows_ = 0;
}

}  // namespace erne::cpu
