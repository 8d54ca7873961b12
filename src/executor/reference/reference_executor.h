// The oracle: plain scalar float32 loops, one row at a time, weights dequantised row by row. Slow
// and obvious on purpose; every other executor is judged against it, and it is judged by the golden
// files.
#pragma once

#include <memory>

#include "executor/executor.h"

namespace erne {

// Takes all its memory here. InvalidArgument when the limits are impossible.
Result<std::unique_ptr<Executor>> MakeReferenceExecutor(std::shared_ptr<const Model> model,
                                                        const ExecutorLimits& limits,
                                                        const LoadProgress& progress = {});

}  // namespace erne
