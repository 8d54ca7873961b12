#include "model/weights.h"

namespace erne {

int64_t LinearWeights::rows() const {
  if (const auto* view = std::get_if<TensorView>(&matrix)) return view->shape.at(0);
  if (const auto* q8 = std::get_if<Int8Matrix>(&matrix)) return q8->rows;
  if (const auto* q4 = std::get_if<Int4Matrix>(&matrix)) return q4->rows;
  return 0;
}

int64_t LinearWeights::cols() const {
  if (const auto* view = std::get_if<TensorView>(&matrix)) return view->shape.at(1);
  if (const auto* q8 = std::get_if<Int8Matrix>(&matrix)) return q8->cols;
  if (const auto* q4 = std::get_if<Int4Matrix>(&matrix)) return q4->cols;
  return 0;
}

}  // namespace erne
