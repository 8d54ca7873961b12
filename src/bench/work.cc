#include "bench/work.h"

#include <cmath>
#include <variant>

#include "executor/kv_storage.h"
#include "kv/block_pool.h"

namespace erne::bench {
namespace {

struct Amount {
  double bytes = 0;
  double operations = 0;
};

Amount Of(const TensorView& matrix) {
  return {static_cast<double>(matrix.bytes()), 2.0 * static_cast<double>(matrix.elements())};
}

Amount Of(const Int4Matrix& matrix) {
  return {static_cast<double>(matrix.bytes()),
          2.0 * static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols)};
}

Amount Of(const Int8Matrix& matrix) {
  return {static_cast<double>(matrix.bytes()),
          2.0 * static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols)};
}

Amount Of(const LinearWeights& weights) {
  if (const auto* view = std::get_if<TensorView>(&weights.matrix)) return Of(*view);
  if (const auto* int4 = std::get_if<Int4Matrix>(&weights.matrix)) return Of(*int4);
  if (const auto* int8 = std::get_if<Int8Matrix>(&weights.matrix)) return Of(*int8);
  return {};
}

}  // namespace

ModelWork::ModelWork(const Model& model, KvDType kv_dtype) {
  const ModelSpec& spec = model.spec;
  experts_ = static_cast<double>(spec.moe.routing.experts);
  top_k_ = static_cast<double>(spec.moe.routing.top_k);
  const auto add = [this](StepProfile::Stage stage, const Amount& amount) {
    products_[stage].bytes += amount.bytes;
    products_[stage].operations += amount.operations;
  };
  for (const LayerWeights& layer : model.weights.layers) {
    for (const LinearWeights* matrix : {&layer.q, &layer.k, &layer.v}) {
      add(StepProfile::kQkv, Of(*matrix));
    }
    add(StepProfile::kOutput, Of(layer.o));
    if (const auto* dense = std::get_if<MlpWeights>(&layer.ffn)) {
      AddMlp(*dense);
    } else {
      const auto& moe = std::get<MoeWeights>(layer.ffn);
      add(StepProfile::kRouter, Of(moe.router));
      AddMoe(moe);
    }
  }
  add(StepProfile::kHead,
      model.weights.head.present() ? Of(model.weights.head) : Of(model.weights.embedding));
  // A score and its share of the sum, over the whole head.
  pair_operations_ = 2 * 2 * static_cast<double>(spec.attention.q_width()) *
                     static_cast<double>(spec.num_layers());
  kv_bytes_ = static_cast<double>(KvBlockBytes(spec, kv_dtype)) / static_cast<double>(kKvBlockSize);
}

void ModelWork::AddMlp(const MlpWeights& mlp) {
  for (const LinearWeights* matrix : {&mlp.gate, &mlp.up, &mlp.down}) {
    Product& product = products_[matrix == &mlp.down ? StepProfile::kDown : StepProfile::kGateUp];
    const Amount amount = Of(*matrix);
    product.bytes += amount.bytes;
    product.operations += amount.operations;
  }
}

void ModelWork::AddMoe(const MoeWeights& moe) {
  if (moe.shared) AddMlp(*moe.shared);
  const MlpWeights& expert = moe.experts.at(0);  // the others are of the same size
  for (const LinearWeights* matrix : {&expert.gate, &expert.up, &expert.down}) {
    Product& product =
        products_[matrix == &expert.down ? StepProfile::kDown : StepProfile::kGateUp];
    const Amount amount = Of(*matrix);
    product.expert_bytes += amount.bytes;
    product.operations += top_k_ * amount.operations;
  }
}

double ModelWork::Bytes(StepProfile::Stage stage, const StepRows& step) const {
  if (stage == StepProfile::kAttention) return step.kv_read * kv_bytes_;
  if (stage == StepProfile::kHead && step.logit_rows == 0) return 0;
  const Product& product = products_[stage];
  if (product.expert_bytes == 0) return product.bytes;
  const double missed = std::pow(1 - top_k_ / experts_, step.rows);
  return product.bytes + product.expert_bytes * experts_ * (1 - missed);
}

double ModelWork::Operations(StepProfile::Stage stage, const StepRows& step) const {
  if (stage == StepProfile::kAttention) return step.attended * pair_operations_;
  const double rows = stage == StepProfile::kHead ? step.logit_rows : step.rows;
  return rows * products_[stage].operations;
}

double ModelWork::Bytes(const StepRows& step) const {
  double bytes = 0;
  for (int stage = 0; stage < StepProfile::kStages; ++stage) {
    bytes += Bytes(static_cast<StepProfile::Stage>(stage), step);
  }
  return bytes;
}

double ModelWork::Operations(const StepRows& step) const {
  double operations = 0;
  for (int stage = 0; stage < StepProfile::kStages; ++stage) {
    operations += Operations(static_cast<StepProfile::Stage>(stage), step);
  }
  return operations;
}

ArithmeticRoof ArithmeticRoofOf(const Model& model) {
  const LinearWeights& matrix = model.weights.layers.at(0).q;
  const auto* view = std::get_if<TensorView>(&matrix.matrix);
  if (view == nullptr) return {"int8", &Roof::int8};
  if (view->dtype == DType::kBF16) return {"bf16", &Roof::bf16};
  return {"f32", &Roof::f32};
}

}  // namespace erne::bench
