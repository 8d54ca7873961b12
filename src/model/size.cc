// MeasureModel: walks the weights by their place and adds up.
#include <algorithm>

#include "model/model.h"

namespace erne {
namespace {

// Elements and bytes of some weights.
struct Amount {
  int64_t elements = 0;
  uint64_t bytes = 0;

  Amount& operator+=(const Amount& other) {
    elements += other.elements;
    bytes += other.bytes;
    return *this;
  }
};

Amount OfMatrix(const TensorView& view) { return {view.elements(), view.bytes()}; }

// The arrays of formats/int4.h, whether they are filled or not. GPTQ's order of inputs, four bytes
// for each column, is left out: a thousandth.
Amount OfMatrix(const Int4Matrix& matrix) {
  const int64_t groups = matrix.group > 0 ? matrix.cols / matrix.group : 0;
  const int64_t bytes = matrix.rows * (matrix.cols / 2) +
                        matrix.rows * groups * static_cast<int64_t>(sizeof(float) + sizeof(int8_t));
  return {matrix.rows * matrix.cols, static_cast<uint64_t>(bytes)};
}

Amount OfMatrix(const Int8Matrix& matrix) {
  return {matrix.rows * matrix.cols, matrix.bytes()};
}

Amount OfVector(const TensorView& view) {
  return {view.elements(), static_cast<uint64_t>(view.elements()) * sizeof(float)};
}

Amount OfVector(const std::optional<TensorView>& view) { return view ? OfVector(*view) : Amount(); }

Amount OfLinear(const LinearWeights& weights) {
  Amount amount = OfVector(weights.bias);
  if (const auto* view = std::get_if<TensorView>(&weights.matrix)) amount += OfMatrix(*view);
  if (const auto* q8 = std::get_if<Int8Matrix>(&weights.matrix)) amount += OfMatrix(*q8);
  if (const auto* q4 = std::get_if<Int4Matrix>(&weights.matrix)) amount += OfMatrix(*q4);
  return amount;
}

Amount OfMlp(const MlpWeights& mlp) {
  Amount amount = OfLinear(mlp.gate);
  amount += OfLinear(mlp.up);
  amount += OfLinear(mlp.down);
  return amount;
}

}  // namespace

ModelSize MeasureModel(const Model& model) {
  const ModelWeights& weights = model.weights;
  Amount total = OfMatrix(weights.embedding);
  total += OfVector(weights.final_norm);
  total += OfLinear(weights.head);
  int64_t idle = 0;  // elements of experts that a token is not sent to
  for (const LayerWeights& layer : weights.layers) {
    for (const auto* linear : {&layer.q, &layer.k, &layer.v, &layer.o}) total += OfLinear(*linear);
    for (const auto* norm : {&layer.input_norm, &layer.post_norm}) total += OfVector(*norm);
    total += OfVector(layer.q_norm);
    total += OfVector(layer.k_norm);
    if (const auto* dense = std::get_if<MlpWeights>(&layer.ffn)) {
      total += OfMlp(*dense);
      continue;
    }
    const auto& moe = std::get<MoeWeights>(layer.ffn);
    total += OfMatrix(moe.router);
    total += OfVector(moe.correction_bias);
    if (moe.shared) total += OfMlp(*moe.shared);
    for (const MlpWeights& expert : moe.experts) total += OfMlp(expert);
    const auto experts = static_cast<int64_t>(moe.experts.size());
    if (experts > 0) {
      idle += OfMlp(moe.experts[0]).elements *
              std::max<int64_t>(0, experts - model.spec.moe.routing.top_k);
    }
  }
  return {total.elements, total.elements - idle, total.bytes};
}

}  // namespace erne
