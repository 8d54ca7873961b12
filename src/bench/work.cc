#include "bench/work.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "executor/kv_storage.h"
#include "kv/block_pool.h"

namespace erne::bench {
namespace {

struct Amount {
  double bytes = 0;
  double operations = 0;

  Amount& operator+=(const Amount& other) {
    bytes += other.bytes;
    operations += other.operations;
    return *this;
  }
};

Amount Of(const TensorView& matrix) {
  return {static_cast<double>(matrix.bytes()), 2.0 * static_cast<double>(matrix.elements())};
}

Amount Of(const Int4Matrix& matrix) {
  return {static_cast<double>(matrix.bytes()),
          2.0 * static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols)};
}

Amount Of(const LinearWeights& weights) {
  if (const auto* view = std::get_if<TensorView>(&weights.matrix)) return Of(*view);
  if (const auto* int4 = std::get_if<Int4Matrix>(&weights.matrix)) return Of(*int4);
  return {};
}

Amount Of(const MlpWeights& mlp) {
  Amount amount = Of(mlp.gate);
  amount += Of(mlp.up);
  amount += Of(mlp.down);
  return amount;
}

}  // namespace

ModelWork::ModelWork(const Model& model, KvDType kv_dtype) {
  const ModelSpec& spec = model.spec;
  Amount layers;
  for (const LayerWeights& layer : model.weights.layers) {
    for (const LinearWeights* matrix : {&layer.q, &layer.k, &layer.v, &layer.o}) {
      layers += Of(*matrix);
    }
    if (const auto* dense = std::get_if<MlpWeights>(&layer.ffn)) {
      layers += Of(*dense);
      continue;
    }
    const auto& moe = std::get<MoeWeights>(layer.ffn);
    layers += Of(moe.router);
    if (moe.shared) layers += Of(*moe.shared);
    const Amount expert = Of(moe.experts.at(0));
    expert_bytes_ += expert.bytes;
    layers.operations += expert.operations * static_cast<double>(spec.moe.routing.top_k);
  }
  layer_bytes_ = layers.bytes;
  layer_operations_ = layers.operations;
  experts_ = static_cast<double>(spec.moe.routing.experts);
  top_k_ = static_cast<double>(spec.moe.routing.top_k);
  const Amount head =
      model.weights.head.present() ? Of(model.weights.head) : Of(model.weights.embedding);
  head_bytes_ = head.bytes;
  head_operations_ = head.operations;
  // A score and its share of the sum, over the whole head.
  pair_operations_ = 2 * 2 * static_cast<double>(spec.attention.q_width()) *
                     static_cast<double>(spec.num_layers());
  kv_bytes_ = static_cast<double>(KvBlockBytes(spec, kv_dtype)) / static_cast<double>(kKvBlockSize);
}

double ModelWork::Bytes(const StepRows& step) const {
  double bytes = layer_bytes_ + step.kv_read * kv_bytes_;
  if (step.logit_rows > 0) bytes += head_bytes_;
  if (experts_ > 0) {
    const double missed = std::pow(1 - top_k_ / experts_, step.rows);
    bytes += expert_bytes_ * experts_ * (1 - missed);
  }
  return bytes;
}

double ModelWork::Operations(const StepRows& step) const {
  return step.rows * layer_operations_ + step.logit_rows * head_operations_ +
         step.attended * pair_operations_;
}

ArithmeticRoof ArithmeticRoofOf(const Model& model) {
  const LinearWeights& matrix = model.weights.layers.at(0).q;
  const auto* view = std::get_if<TensorView>(&matrix.matrix);
  if (view == nullptr) return {"int8", &Roof::int8};
  if (view->dtype == DType::kBF16) return {"bf16", &Roof::bf16};
  return {"f32", &Roof::f32};
}

}  // namespace erne::bench
