#include "model/weights.h"

namespace erne {

int64_t LinearWeights::rows() const {
  if (const auto* view = std::get_if<TensorView>(&matrix)) return view->shape.at(0);
  if (const auto* packed = std::get_if<Int4Matrix>(&matrix)) return packed->rows;
  return 0;
}

int64_t LinearWeights::cols() const {
  if (const auto* view = std::get_if<TensorView>(&matrix)) return view->shape.at(1);
  if (const auto* packed = std::get_if<Int4Matrix>(&matrix)) return packed->cols;
  return 0;
}

}  // namespace erne
