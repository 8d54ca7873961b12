// A model with the weights that an executor really computes with.
#pragma once

#include <memory>

#include "executor/precision.h"
#include "model/model.h"

namespace erne {

// `model` with its float matrices rounded as the CPU executor rounds them while loading, for an
// executor that rounds nothing: the reference. A tied head becomes one of its own, and the
// embedding has its values as float32. Routers, norms and biases stay. `model` itself where
// `precision` asks for no rounding. threads: as of ThreadPool.
std::shared_ptr<const Model> RoundedModel(std::shared_ptr<const Model> model,
                                          const Precision& precision, int threads);

}  // namespace erne
