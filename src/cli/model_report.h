// What `erne inspect` tells about a model, for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "cli/flags.h"
#include "cli/memory_plan.h"
#include "executor/executor.h"
#include "model/model.h"

namespace erne {

struct ModelReport {
  std::string name;  // as it would be served
  std::string path;
  Model model;
  ExecutorInfo executor;           // what would run it here; the bytes are not used
  std::vector<std::string> notes;  // about that
  uint64_t available_bytes = 0;    // memory, now; 0: unknown
  double utilization = 0;          // share of it that may be taken
  // What serve would take now, or why it would not start.
  Result<MemoryPlan> plan = Internal("not planned");
  bool with_tensors = false;  // list them all
};

Json ReportJson(const ModelReport& report);
std::string ReportText(const ModelReport& report, Language language);

// 38'463'744 -> "38.5 M".
std::string FormatCount(int64_t count);

}  // namespace erne
