// Models that need no files: shapes of published models, and weights that are drawn.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model.h"

namespace erne::bench {

// What weights are stored as.
enum class WeightForm {
  kF32,
  kF16,
  kBF16,
  kAwq,  // layers of 4 bits in groups of 128 (less where a width asks for it), f16 embedding
};

// The names of shapes, for help and errors: "ernie-4.5-0.3b", ...
const std::vector<std::string>& ShapeNames();

// The shape `name`, or the first layers of it: "ernie-4.5-21b-a3b:4". InvalidArgument, with param
// "--shape", for anything else.
Result<ModelSpec> SpecOfShape(const std::string& name);

// A model of this shape with random weights: the same for the same seed, on every machine and with
// any number of threads. Their sizes are such that activations stay near 1 through the layers and
// logits spread over about +-10, as those of trained models do.
//
// Weights are drawn straight into the form, in parallel. ResourceExhausted, with the numbers, when
// they take more memory than is free. The weights live as long as the model.
Result<std::shared_ptr<const Model>> MakeRandomModel(const ModelSpec& spec, WeightForm form,
                                                     uint64_t seed, int threads);

}  // namespace erne::bench
