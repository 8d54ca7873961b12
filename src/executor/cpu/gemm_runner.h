// Matrix products of one step, spread over the threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/memory.h"
#include "executor/cpu/packed_matrix.h"

namespace erne::cpu {

// y = epilogue(W x) for some rows of activations.
struct GemmJob {
  Epilogue epilogue = Epilogue::kStore;
  const PackedMatrix* matrix = nullptr;
  const PackedMatrix* up = nullptr;  // Epilogue::kSwiGlu
  int64_t rows = 0;
  const float* x = nullptr;  // [*, x_stride]; row i reads row x_rows[i], or i when x_rows is null
  int64_t x_stride = 0;
  const int32_t* x_rows = nullptr;
  float* y = nullptr;  // [rows, y_stride]
  int64_t y_stride = 0;
};

// Collects jobs that do not depend on each other (q, k and v; all experts of a layer) and runs them
// as one parallel loop. Used by the executor's thread; allocates nothing after construction.
class GemmRunner {
 public:
  // max_jobs: jobs in one loop. max_groups, max_permuted_cols: see PackedModel. The arrays join
  // `workspace`, which the caller allocates before the first Run.
  GemmRunner(const Kernels& kernels, ThreadPool& pool, int64_t max_jobs, int64_t max_groups,
             int64_t max_permuted_cols, Workspace& workspace);
  GemmRunner(const GemmRunner&) = delete;
  GemmRunner& operator=(const GemmRunner&) = delete;

  // A job without rows is dropped.
  void Add(const GemmJob& job);
  // Runs the jobs and forgets them.
  void Run();
  void Run(const GemmJob& job) {
    Add(job);
    Run();
  }

 private:
  // A job cut into panel_chunks x row_chunks tasks.
  struct Cut {
    GemmJob job;
    int64_t first_task = 0;
    int64_t panels_per_task = 0;
    int64_t rows_per_task = 0;
    int64_t row_chunks = 0;
  };

  int64_t CutJobs();
  void RunTask(int64_t task, int worker) const;

  const Kernels& kernels_;
  ThreadPool& pool_;
  std::vector<Cut> jobs_;             // capacity: max_jobs
  std::vector<GemmScratch> scratch_;  // [threads]
};

}  // namespace erne::cpu
