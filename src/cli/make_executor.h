// The one place that names concrete executors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file_set.h"
#include "base/status.h"
#include "cli/flags.h"
#include "cli/memory_plan.h"
#include "executor/executor.h"
#include "executor/precision.h"

namespace erne {

// What `--executor` accepts: "reference", "cpu", "cuda".
const std::vector<std::string>& ExecutorNames();

// Declares --threads and --pin-threads, as MakeExecutor takes them.
struct ThreadFlags {
  int64_t threads = 0;  // 0: every usable CPU
  bool pin = false;
};
void AddThreadFlags(FlagTable& flags, ThreadFlags* target);

// Precision as flags have it.
struct PrecisionFlags {
  std::string activation_dtype = "auto";
  std::string quantization;  // empty: whatever the checkpoint holds
  std::string head_dtype = "auto";
};
// Declares --activation-dtype, --quantization and --head-dtype.
void AddPrecisionFlags(FlagTable& flags, PrecisionFlags* target);
// `flags`: as parsed, or set by hand to names that the flags accept (CHECKed).
Precision ToPrecision(const PrecisionFlags& flags);

// Not ok when --quantization names a format that the weights in `files` are not in, or asks to
// round weights that are in one already.
Status CheckQuantization(const FileSet& files, const PrecisionFlags& flags);

struct ExecutorSettings {
  // 0 = every CPU that this process may use; more than a few for each of them are not started, and
  // the log says so.
  int threads = 0;
  bool pin_threads = false;  // to a CPU each
  Precision precision;
};

// The executor `name` on `model`. Unimplemented when this build lacks it; InvalidArgument when the
// reference executor is to round weights or activations, for it computes in float32 what is stored
// (Unimplemented for the CUDA executor, which computes what is stored, too);
// else the errors of the executor's own factory.
Result<std::unique_ptr<Executor>> MakeExecutor(const std::string& name,
                                               std::shared_ptr<const Model> model,
                                               const ExecutorLimits& limits,
                                               const ExecutorSettings& settings = {},
                                               const LoadProgress& progress = {});

// The executor for --device auto, cpu or cuda: with auto the GPU where erne can use one. `note` is
// then why it cannot, when this build could and the machine cannot; else empty. With cuda the error
// says why there is none.
Result<std::string> ExecutorForDevice(const std::string& device, std::string* note);

// Bytes that are free where the executor `name` computes; 0: nobody knows.
uint64_t AvailableMemoryOf(const std::string& name);

// Sets what planning memory for the executor `name` needs to know of it, weight_bytes among them.
// `needs`: all else is set.
Status AddExecutorNeeds(const std::string& name, const Model& model, MemoryNeeds& needs);

// What the executor `name` ("cpu" or "cuda") would run `model` with on this machine: name and
// types; the bytes are 0. Errors as of MakeExecutor about `precision`.
Result<ExecutorInfo> DescribeExecutor(const std::string& name, const Model& model, KvDType kv_dtype,
                                      const Precision& precision);

// What of `flags` changes nothing for `model`, each with the reason. info: of its executor.
std::vector<std::string> IdlePrecisionFlags(const PrecisionFlags& flags, const Model& model,
                                            const ExecutorInfo& info);

}  // namespace erne
