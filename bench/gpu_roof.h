// The memory roof of the GPU, measured: what a step's time is held against.
#pragma once

#include "base/status.h"

namespace erne {

// Bytes a second that a kernel reads from a gigabyte of device memory, far more than its caches
// hold; the median of several runs.
Result<double> MeasureReadBandwidth();

// Marks what a profiler that waits for it (ncu --profile-from-start off) looks at.
void ProfilerStart();
void ProfilerStop();

}  // namespace erne
