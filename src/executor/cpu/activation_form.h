// The forms of activations that matrices read (Activations in kernels.h).
#pragma once

#include "executor/cpu/kernels.h"

namespace erne::cpu {

// Where in a row of activations the things are that `matrix` reads; no data.
Activations FormOf(const MatrixRef& matrix, bool bf16_products);

// Whether the matrix reads its activations in another form than rows of floats in their own order.
bool NeedsPreparing(const MatrixRef& matrix);

// Whether two matrices that need preparing read the same form of the same rows.
bool SameActivations(const MatrixRef& a, const MatrixRef& b);

}  // namespace erne::cpu
