// From a checkpoint's files to a described model: config.json -> ModelSpec, tensors ->
// ModelWeights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file_set.h"
#include "base/json.h"
#include "base/status.h"
#include "model/model_spec.h"
#include "model/weights.h"

namespace erne {

struct Model {
  ModelSpec spec;
  ModelWeights weights;
  std::string precision;  // what the checkpoint stores, for people: "bf16", "awq int4 (group 64)"
};

// Parses config.json of `files` by its model_type. Unknown architectures are refused by name, with
// the list of known ones; vision-language ones with a sentence of their own; impossible numbers (0
// heads, top_k > experts) by field.
Result<ModelSpec> LoadSpec(const FileSet& files);
Result<ModelSpec> SpecFromConfig(const Json& config);

struct LoadOptions {
  // False: 4-bit matrices get their sizes but no elements, for those who describe a model and do
  // not run it, or unpack one matrix after the other themselves (LinearWeights::unpack). Reads headers
  // alone, so it takes no time and no memory.
  bool unpack = true;
};

// Spec and weights. Missing, misshapen and (unless the architecture says they may be skipped)
// unused tensors are named: up to ten, and a count.
Result<Model> LoadModel(std::shared_ptr<const FileSet> files, const LoadOptions& options = {});

// How large a model is. Works for models that were not unpacked too.
struct ModelSize {
  int64_t parameters = 0;  // elements of matrices and vectors; a tied head counts once
  int64_t active_parameters =
      0;  // of them, those that one token passes: without the experts it is not sent to
  // As executors keep them: matrices as stored, 4-bit ones in the form of formats/int4.h, vectors
  // as float32.
  uint64_t weight_bytes = 0;
};
ModelSize MeasureModel(const Model& model);

// model_type values that SpecFromConfig accepts, sorted.
std::vector<std::string> KnownArchitectures();

}  // namespace erne
