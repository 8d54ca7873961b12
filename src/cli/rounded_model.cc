#include "cli/rounded_model.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/thread_pool.h"
#include "executor/cpu/packed_matrix.h"
#include "formats/int8.h"

namespace erne {
namespace {

// What the copy refers to.
struct Rounded {
  std::shared_ptr<const Model> source;
  std::vector<float> embedding;
  Model model;
};

// As PackedMatrix rounds.
void Round(LinearWeights& weights, Quantization to) {
  const auto* view = std::get_if<TensorView>(&weights.matrix);
  if (view == nullptr || to == Quantization::kNone) return;
  const TensorView matrix = *view;  // the variant that holds it is about to change
  const int64_t rows = matrix.shape.at(0);
  const cpu::RoundedForm form = cpu::RoundedFormFor(
      to == Quantization::kInt4 ? cpu::WeightType::kInt4 : cpu::WeightType::kInt8,
      matrix.shape.at(1));
  if (form.type == cpu::WeightType::kInt4) {
    weights.matrix = QuantizeInt4(matrix, 0, rows, form.group);
  } else {
    weights.matrix = QuantizeInt8(matrix, 0, rows, form.group);
  }
}

void AddMlp(MlpWeights& mlp, std::vector<LinearWeights*>& matrices) {
  matrices.insert(matrices.end(), {&mlp.gate, &mlp.up, &mlp.down});
}

std::vector<LinearWeights*> MatricesOfLayers(ModelWeights& weights) {
  std::vector<LinearWeights*> matrices;
  for (LayerWeights& layer : weights.layers) {
    matrices.insert(matrices.end(), {&layer.q, &layer.k, &layer.v, &layer.o});
    if (auto* dense = std::get_if<MlpWeights>(&layer.ffn)) {
      AddMlp(*dense, matrices);
      continue;
    }
    auto& moe = std::get<MoeWeights>(layer.ffn);
    for (MlpWeights& expert : moe.experts) AddMlp(expert, matrices);
    if (moe.shared) AddMlp(*moe.shared, matrices);
  }
  return matrices;
}

// The embedding that a rounded tied head is.
void WidenEmbedding(ThreadPool& pool, Rounded& rounded) {
  TensorView& embedding = rounded.model.weights.embedding;
  const LinearWeights& head = rounded.model.weights.head;
  const int64_t rows = head.rows();
  const auto cols = static_cast<size_t>(head.cols());
  rounded.embedding.resize(static_cast<size_t>(rows) * cols);
  constexpr int64_t kRows = 256;
  pool.ParallelFor(rows, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const std::span<float> out(rounded.embedding.data() + static_cast<size_t>(row) * cols, cols);
      if (const auto* int4 = std::get_if<Int4Matrix>(&head.matrix)) {
        DequantizeRow(*int4, row, out);
      } else {
        DequantizeRow(std::get<Int8Matrix>(head.matrix), row, out);
      }
    }
  });
  embedding.dtype = DType::kF32;
  embedding.data = reinterpret_cast<const std::byte*>(rounded.embedding.data());
}

}  // namespace

std::shared_ptr<const Model> RoundedModel(std::shared_ptr<const Model> model,
                                          const Precision& precision, int threads) {
  const Quantization of_head =
      precision.head != Quantization::kNone ? precision.head : precision.quantization;
  if (precision.quantization == Quantization::kNone && of_head == Quantization::kNone) return model;
  const auto rounded = std::make_shared<Rounded>();
  rounded->model = *model;
  rounded->source = std::move(model);
  ThreadPool pool(threads);
  ModelWeights& weights = rounded->model.weights;
  const bool tied = !weights.head.present();
  if (tied) weights.head.matrix = weights.embedding;
  std::vector<LinearWeights*> matrices = MatricesOfLayers(weights);
  matrices.push_back(&weights.head);
  pool.ParallelFor(static_cast<int64_t>(matrices.size()), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      LinearWeights* const matrix = matrices[static_cast<size_t>(i)];
      Round(*matrix, matrix == &weights.head ? of_head : precision.quantization);
    }
  });
  if (tied && of_head != Quantization::kNone) WidenEmbedding(pool, *rounded);
  return {rounded, &rounded->model};
}

}  // namespace erne
