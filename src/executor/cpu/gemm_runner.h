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

// What the products of a model need room for.
struct GemmLimits {
  int64_t max_jobs = 0;       // in one loop
  int64_t max_rows = 0;       // of all jobs of a loop, a row of kSwiGlu counted twice
  int64_t max_row_bytes = 0;  // of a row of activations as a matrix reads it
  int64_t max_cols = 0;       // of a matrix that has an order of its own
};

// Collects jobs that do not depend on each other (q, k and v; all experts of a layer), puts their
// activations into the form that the matrices read, once for all matrices that read the same, and
// runs the products as one parallel loop. Used by the executor's thread; allocates nothing after
// construction.
class GemmRunner {
 public:
  // The arrays join `workspace`, which the caller allocates before the first Run.
  GemmRunner(const Kernels& kernels, ThreadPool& pool, const GemmLimits& limits,
             Workspace& workspace);
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
    Activations x;
    Activations up_x;
    int64_t first_task = 0;
    int64_t panels_per_task = 0;
    int64_t rows_per_task = 0;
    int64_t row_chunks = 0;
  };
  // Rows of activations that are put into a form.
  struct Source {
    PrepareTask task;
    int64_t rows = 0;
    int64_t first_row = 0;  // in the loop over all rows
  };

  // The rows of `job` as `matrix` reads them; to be made by PrepareRows where they are not x
  // itself.
  Activations Prepared(const GemmJob& job, const MatrixRef& matrix, bool gather);
  void PrepareRows();
  int64_t CutJobs();
  void RunTask(int64_t task, int worker) const;

  const Kernels& kernels_;
  ThreadPool& pool_;
  const GemmLimits limits_;
  std::vector<Cut> jobs_;              // capacity: max_jobs
  std::vector<Source> sources_;        // capacity: 2 * max_jobs
  std::vector<GemmScratch> scratch_;   // [threads]
  std::vector<float*> ordered_;        // [threads]: [max_cols]
  unsigned char* prepared_ = nullptr;  // [max_rows, max_row_bytes]
  int64_t prepared_bytes_ = 0;         // used so far
  int64_t prepared_rows_ = 0;
};

}  // namespace erne::cpu
