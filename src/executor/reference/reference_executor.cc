// One pass over the decoder that model_spec.h describes, in the order in which it is written there.
//
// Arithmetic. Every value that lives in memory (activations, norms, scores, probabilities, KV,
// logits) is a float32, rounded where transformers' float32 run rounds it. The sums inside (dot
// products, means, softmax denominators, the mix of experts) are added in double and rounded once.
// A float32 sum would carry an error that grows with its length and depends on the order of its
// terms, and that order is just what differs between this loop, a vectorised kernel, a GPU and
// torch. In double the product of two float32 is exact and the order is lost in the rounding: an
// oracle without an order of its own, so that a tolerance has to allow for the errors of the judged
// executor alone.
//
// K and V live in memory as float32 too; with another KvDType they are the values that it would
// give back, so that this executor is an oracle for each type, and takes the memory of float32.
//
// Weights are widened to float32 one row at a time; a row is used for all rows of the batch before
// the next one is widened, which changes no sum: what a row computes depends on its own sequence
// alone.
#include "executor/reference/reference_executor.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "executor/batch_check.h"
#include "executor/kv_storage.h"
#include "executor/rope.h"
#include "moe/routing.h"

namespace erne {
namespace {

// Rows of float32, row-major. Memory is taken by the constructor.
class Matrix {
 public:
  Matrix() = default;
  Matrix(int64_t rows, int64_t cols)
      : cols_(static_cast<size_t>(cols)), data_(static_cast<size_t>(rows) * cols_) {}

  std::span<float> row(int64_t index) { return {data_.data() + index * cols_, cols_}; }
  std::span<const float> row(int64_t index) const { return {data_.data() + index * cols_, cols_}; }
  size_t bytes() const { return data_.size() * sizeof(float); }

 private:
  size_t cols_ = 0;
  std::vector<float> data_;
};

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

void AddTo(std::span<float> x, std::span<const float> y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// y = weight * (x / sqrt(mean(x^2) + eps)). `y` may be `x`.
void RmsNorm(std::span<const float> x, std::span<const float> weight, float eps,
             std::span<float> y) {
  const auto variance = static_cast<float>(Dot(x, x) / static_cast<double>(x.size()));
  const float scale = 1.0F / std::sqrt(variance + eps);
  for (size_t i = 0; i < x.size(); ++i) y[i] = weight[i] * (x[i] * scale);
}

float Silu(float x) { return x / (1.0F + std::exp(-x)); }

// scores -> probabilities, in place.
void Softmax(std::span<float> scores) {
  const float largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (float& score : scores) {
    score = std::exp(score - largest);
    sum += score;
  }
  for (float& score : scores) score = static_cast<float>(score / sum);
}

// Per layer: the small weights that every row reads whole, widened once.
struct LayerExtras {
  std::vector<float> input_norm, post_norm;  // [hidden]
  std::vector<float> q_norm, k_norm;         // [head_dim], empty without qk_norm
  LinearWeights router;                      // [experts, hidden], in MoE layers
  std::vector<float> correction_bias;        // [experts], empty when the rule has none
};

class ReferenceExecutor final : public Executor {
 public:
  ReferenceExecutor(std::shared_ptr<const Model> model, const ExecutorLimits& limits);

  Result<std::span<const float>> Run(const Batch& batch) override;
  void SetRoutingTrace(RoutingTrace* trace) override { trace_ = trace; }
  const ModelSpec& spec() const override { return model_->spec; }
  const ExecutorLimits& limits() const override { return limits_; }
  ExecutorInfo info() const override;

 private:
  // A row of the batch: which sequence it belongs to, and its position there.
  struct Row {
    const SequenceRows* sequence = nullptr;
    int64_t position = 0;
  };

  void PlanRows(const Batch& batch);
  // out[t] = weights * in[t] + bias for the first `count` rows. out rows may be wider than the
  // result.
  void Linear(const LinearWeights& weights, const Matrix& in, int64_t count, Matrix& out);
  void WidenRow(const LinearWeights& weights, int64_t row);
  void Attention(int64_t layer);
  void NormAndRotate(int64_t layer, int64_t row);
  void Attend(int64_t layer, int64_t row);
  void Mlp(const MlpWeights& weights, const Matrix& in, int64_t count, Matrix& out);
  void Moe(int64_t layer, const MoeWeights& weights);
  void Logits(const Batch& batch);

  // The K or V of a row into the cache. [kv_heads * head_dim]
  void Store(std::span<const float> row, std::span<float> slot);
  // K or V of one position. [kv_heads * head_dim]
  std::span<float> Key(int64_t layer, int64_t slot) { return keys_.row(layer * slots_ + slot); }
  std::span<float> Value(int64_t layer, int64_t slot) { return values_.row(layer * slots_ + slot); }

  std::shared_ptr<const Model> model_;
  ExecutorLimits limits_;
  Rope rope_;
  RoutingTrace* trace_ = nullptr;
  std::vector<LayerExtras> layers_;
  std::vector<float> final_norm_;  // [hidden]
  LinearWeights tied_head_;        // [vocab, hidden], the embedding: for models without a head

  int64_t slots_;  // positions of the KV pool
  Matrix keys_;    // [layers * slots, kv_width], after rope
  Matrix values_;  // [layers * slots, kv_width]

  // Of the running batch: [rows, width of the name].
  std::vector<Row> rows_;
  Matrix x_;                           // the residual stream [rows, hidden]
  Matrix normed_;                      // [rows, hidden]
  Matrix q_, k_, v_;                   // [rows, q_width], [rows, kv_width]
  Matrix attended_;                    // [rows, q_width]
  Matrix gate_, up_;                   // [rows, widest MLP]
  Matrix delta_;                       // what a block adds to x [rows, hidden]
  Matrix cos_, sin_;                   // [rows, head_dim / 2]
  Matrix one_;                         // the row that an expert reads [1, hidden]
  Matrix expert_out_;                  // [1, hidden]
  Matrix router_logits_;               // [rows, experts]
  Matrix logits_;                      // [logit rows, vocab]
  std::vector<float> weight_row_;      // [widest matrix]
  std::vector<float> scores_;          // [context]
  std::vector<float> router_scratch_;  // [2 * experts]
  std::vector<float> expert_weights_;  // [top_k]
  std::vector<int32_t> expert_ids_;    // [top_k]
  std::vector<double> mixed_;          // [hidden]
};

int64_t WidestMlp(const ModelSpec& spec) {
  return std::max({spec.dense_intermediate, spec.moe.intermediate, spec.moe.shared_intermediate});
}

ReferenceExecutor::ReferenceExecutor(std::shared_ptr<const Model> model,
                                     const ExecutorLimits& limits)
    : model_(std::move(model)),
      limits_(limits),
      rope_(model_->spec.attention.rope, model_->spec.attention.head_dim),
      slots_(limits.num_blocks * kKvBlockSize),
      keys_(model_->spec.num_layers() * slots_, model_->spec.attention.kv_width()),
      values_(model_->spec.num_layers() * slots_, model_->spec.attention.kv_width()) {
  const ModelSpec& spec = model_->spec;
  const ModelWeights& weights = model_->weights;
  const AttentionSpec& attention = spec.attention;
  for (const LayerWeights& layer : weights.layers) {
    LayerExtras& extras = layers_.emplace_back();
    extras.input_norm = ToFloats(layer.input_norm);
    extras.post_norm = ToFloats(layer.post_norm);
    if (attention.qk_norm) {
      extras.q_norm = ToFloats(*layer.q_norm);
      extras.k_norm = ToFloats(*layer.k_norm);
    }
    if (const auto* moe = std::get_if<MoeWeights>(&layer.ffn)) {
      extras.router.matrix = moe->router;
      if (spec.moe.routing.correction_bias) {
        extras.correction_bias = ToFloats(*moe->correction_bias);
      }
    }
  }
  final_norm_ = ToFloats(weights.final_norm);
  tied_head_.matrix = weights.embedding;

  const int64_t rows = limits_.max_rows;
  const int64_t mlp = WidestMlp(spec);
  rows_.reserve(static_cast<size_t>(rows));
  x_ = normed_ = delta_ = Matrix(rows, spec.hidden);
  q_ = attended_ = Matrix(rows, attention.q_width());
  k_ = v_ = Matrix(rows, attention.kv_width());
  gate_ = up_ = Matrix(rows, mlp);
  cos_ = sin_ = Matrix(rows, attention.head_dim / 2);
  one_ = expert_out_ = Matrix(1, spec.hidden);
  logits_ = Matrix(limits_.max_logit_rows, spec.vocab_size);
  weight_row_.resize(static_cast<size_t>(std::max({spec.hidden, attention.q_width(), mlp})));
  scores_.resize(static_cast<size_t>(limits_.max_context));
  if (spec.has_moe()) {
    const RoutingSpec& routing = spec.moe.routing;
    router_logits_ = Matrix(rows, routing.experts);
    router_scratch_.resize(static_cast<size_t>(2 * routing.experts));
    expert_weights_.resize(static_cast<size_t>(routing.top_k));
    expert_ids_.resize(static_cast<size_t>(routing.top_k));
    mixed_.resize(static_cast<size_t>(spec.hidden));
  }
}

Result<std::span<const float>> ReferenceExecutor::Run(const Batch& batch) {
  const ModelSpec& spec = model_->spec;
  const BatchSize size = CheckBatch(batch, spec.vocab_size, limits_);
  if (trace_ != nullptr) trace_->layers.clear();
  PlanRows(batch);
  const auto eps = static_cast<float>(spec.norm_eps);
  for (int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    const LayerExtras& extras = layers_[static_cast<size_t>(layer)];
    for (int64_t t = 0; t < size.rows; ++t) {
      RmsNorm(x_.row(t), extras.input_norm, eps, normed_.row(t));
    }
    Attention(layer);
    for (int64_t t = 0; t < size.rows; ++t) AddTo(x_.row(t), delta_.row(t));
    for (int64_t t = 0; t < size.rows; ++t) {
      RmsNorm(x_.row(t), extras.post_norm, eps, normed_.row(t));
    }
    const auto& ffn = model_->weights.layers[static_cast<size_t>(layer)].ffn;
    if (const auto* moe = std::get_if<MoeWeights>(&ffn)) {
      Moe(layer, *moe);
    } else {
      Mlp(std::get<MlpWeights>(ffn), normed_, size.rows, delta_);
    }
    for (int64_t t = 0; t < size.rows; ++t) AddTo(x_.row(t), delta_.row(t));
  }
  Logits(batch);
  return std::span<const float>(logits_.row(0).data(),
                                static_cast<size_t>(size.logit_rows * spec.vocab_size));
}

// Lists the rows, looks up their embeddings and computes their rope angles.
void ReferenceExecutor::PlanRows(const Batch& batch) {
  const int64_t hidden = model_->spec.hidden;
  rows_.clear();
  for (const SequenceRows& sequence : batch) {
    for (size_t i = 0; i < sequence.tokens.size(); ++i) {
      const auto t = static_cast<int64_t>(rows_.size());
      rows_.push_back({&sequence, sequence.start + static_cast<int64_t>(i)});
      CopyToFloat(model_->weights.embedding, sequence.tokens[i] * hidden, x_.row(t));
      rope_.Angles(rows_.back().position, cos_.row(t), sin_.row(t));
    }
  }
}

void ReferenceExecutor::WidenRow(const LinearWeights& weights, int64_t row) {
  const std::span<float> out(weight_row_.data(), static_cast<size_t>(weights.cols()));
  if (const auto* int4 = std::get_if<Int4Matrix>(&weights.matrix)) {
    DequantizeRow(*int4, row, out);
  } else if (const auto* int8 = std::get_if<Int8Matrix>(&weights.matrix)) {
    DequantizeRow(*int8, row, out);
  } else {
    CopyToFloat(std::get<TensorView>(weights.matrix), row * weights.cols(), out);
  }
}

void ReferenceExecutor::Linear(const LinearWeights& weights, const Matrix& in, int64_t count,
                               Matrix& out) {
  const std::span<const float> weight(weight_row_.data(), static_cast<size_t>(weights.cols()));
  for (int64_t r = 0; r < weights.rows(); ++r) {
    WidenRow(weights, r);
    float bias = 0.0F;
    if (weights.bias) CopyToFloat(*weights.bias, r, {&bias, 1});
    for (int64_t t = 0; t < count; ++t) {
      out.row(t)[r] = static_cast<float>(Dot(weight, in.row(t).first(weight.size())) + bias);
    }
  }
}

// delta = o(attention(normed)); all rows' K and V are stored first, since a row of a prompt reads
// those of the rows before it.
void ReferenceExecutor::Attention(int64_t layer) {
  const LayerWeights& weights = model_->weights.layers[static_cast<size_t>(layer)];
  const auto count = static_cast<int64_t>(rows_.size());
  Linear(weights.q, normed_, count, q_);
  Linear(weights.k, normed_, count, k_);
  Linear(weights.v, normed_, count, v_);
  for (int64_t t = 0; t < count; ++t) {
    NormAndRotate(layer, t);
    const int64_t slot = KvSlot(rows_[t].sequence->blocks, rows_[t].position);
    Store(k_.row(t), Key(layer, slot));
    Store(v_.row(t), Value(layer, slot));
  }
  for (int64_t t = 0; t < count; ++t) Attend(layer, t);
  Linear(weights.o, attended_, count, delta_);
}

void ReferenceExecutor::NormAndRotate(int64_t layer, int64_t row) {
  const AttentionSpec& spec = model_->spec.attention;
  const LayerExtras& extras = layers_[static_cast<size_t>(layer)];
  const auto eps = static_cast<float>(model_->spec.norm_eps);
  const auto rotate_heads = [&](std::span<float> heads, const std::vector<float>& norm) {
    for (size_t begin = 0; begin < heads.size(); begin += spec.head_dim) {
      const std::span<float> head = heads.subspan(begin, spec.head_dim);
      if (spec.qk_norm) RmsNorm(head, norm, eps, head);
      rope_.Rotate(cos_.row(row), sin_.row(row), head);
    }
  };
  rotate_heads(q_.row(row), extras.q_norm);
  rotate_heads(k_.row(row), extras.k_norm);
}

// attended[row] = softmax(q k / sqrt(head_dim)) v over the row's own position and all before it;
// query heads share K and V in groups of heads / kv_heads neighbours.
void ReferenceExecutor::Attend(int64_t layer, int64_t row) {
  const AttentionSpec& spec = model_->spec.attention;
  const auto head_dim = static_cast<size_t>(spec.head_dim);
  const double scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  const int64_t context = rows_[row].position + 1;
  const std::span<const BlockId> blocks = rows_[row].sequence->blocks;
  const std::span<float> scores(scores_.data(), static_cast<size_t>(context));
  for (int64_t head = 0; head < spec.heads; ++head) {
    const size_t kv_begin = head / (spec.heads / spec.kv_heads) * head_dim;
    const std::span<const float> q = q_.row(row).subspan(head * head_dim, head_dim);
    for (int64_t p = 0; p < context; ++p) {
      const std::span<const float> k = Key(layer, KvSlot(blocks, p)).subspan(kv_begin, head_dim);
      scores[p] = static_cast<float>(Dot(q, k) * scale);
    }
    Softmax(scores);
    const std::span<float> out = attended_.row(row).subspan(head * head_dim, head_dim);
    for (size_t d = 0; d < head_dim; ++d) {
      double sum = 0.0;
      for (int64_t p = 0; p < context; ++p) {
        sum += static_cast<double>(scores[p]) * Value(layer, KvSlot(blocks, p))[kv_begin + d];
      }
      out[d] = static_cast<float>(sum);
    }
  }
}

// out = down(silu(gate(in)) * up(in)) for the first `count` rows.
void ReferenceExecutor::Mlp(const MlpWeights& weights, const Matrix& in, int64_t count,
                            Matrix& out) {
  Linear(weights.gate, in, count, gate_);
  Linear(weights.up, in, count, up_);
  const auto width = static_cast<size_t>(weights.gate.rows());
  for (int64_t t = 0; t < count; ++t) {
    const std::span<float> gate = gate_.row(t);
    const std::span<const float> up = up_.row(t);
    for (size_t i = 0; i < width; ++i) gate[i] = Silu(gate[i]) * up[i];
  }
  Linear(weights.down, gate_, count, out);
}

// delta = sum over the chosen experts of weight * expert(normed), + shared(normed)
void ReferenceExecutor::Moe(int64_t layer, const MoeWeights& weights) {
  const ModelSpec& spec = model_->spec;
  const auto count = static_cast<int64_t>(rows_.size());
  RoutingTrace::Layer trace{layer, {}};
  const LayerExtras& extras = layers_[static_cast<size_t>(layer)];
  Linear(extras.router, normed_, count, router_logits_);
  if (weights.shared) Mlp(*weights.shared, normed_, count, delta_);
  for (int64_t t = 0; t < count; ++t) {
    RouteToken(spec.moe.routing, router_logits_.row(t), extras.correction_bias, expert_ids_,
               expert_weights_, router_scratch_);
    if (trace_ != nullptr) {
      trace.ids.insert(trace.ids.end(), expert_ids_.begin(), expert_ids_.end());
    }
    std::ranges::fill(mixed_, 0.0);
    for (size_t i = 0; i < expert_ids_.size(); ++i) {
      std::ranges::copy(normed_.row(t), one_.row(0).begin());
      Mlp(weights.experts[static_cast<size_t>(expert_ids_[i])], one_, 1, expert_out_);
      for (size_t d = 0; d < mixed_.size(); ++d) {
        mixed_[d] += static_cast<double>(expert_weights_[i]) * expert_out_.row(0)[d];
      }
    }
    const std::span<float> out = delta_.row(t);
    for (size_t d = 0; d < mixed_.size(); ++d) {
      out[d] = static_cast<float>(mixed_[d] + (weights.shared ? out[d] : 0.0F));
    }
  }
  if (trace_ != nullptr) trace_->layers.push_back(std::move(trace));
}

void ReferenceExecutor::Logits(const Batch& batch) {
  const ModelSpec& spec = model_->spec;
  // The rows that need logits, moved together to the front of normed_.
  int64_t row = 0;
  int64_t count = 0;
  for (const SequenceRows& sequence : batch) {
    const auto rows = static_cast<int64_t>(sequence.tokens.size());
    for (int64_t t = row + rows - LogitRows(sequence); t < row + rows; ++t) {
      RmsNorm(x_.row(t), final_norm_, static_cast<float>(spec.norm_eps), normed_.row(count++));
    }
    row += rows;
  }
  if (count == 0) return;
  const LinearWeights& head = model_->weights.head;
  Linear(head.present() ? head : tied_head_, normed_, count, logits_);
}

void ReferenceExecutor::Store(std::span<const float> row, std::span<float> slot) {
  std::ranges::copy(row, slot.begin());
  const auto head_dim = static_cast<size_t>(model_->spec.attention.head_dim);
  for (size_t begin = 0; begin < slot.size(); begin += head_dim) {
    RoundLikeKvCache(limits_.kv_dtype, slot.subspan(begin, head_dim));
  }
}

ExecutorInfo ReferenceExecutor::info() const {
  ExecutorInfo info;
  info.name = "reference (scalar, 1 thread)";
  info.weight_type = model_->precision;
  info.activation_type = "f32";
  info.kv_type = KvDTypeName(limits_.kv_dtype);
  info.weight_bytes = model_->weights.checkpoint ? model_->weights.checkpoint->total_bytes() : 0;
  info.kv_bytes = keys_.bytes() + values_.bytes();
  for (const Matrix* matrix : {&x_, &normed_, &q_, &k_, &v_, &attended_, &gate_, &up_, &delta_,
                               &cos_, &sin_, &one_, &expert_out_, &router_logits_, &logits_}) {
    info.workspace_bytes += matrix->bytes();
  }
  return info;
}

}  // namespace

Result<std::unique_ptr<Executor>> MakeReferenceExecutor(std::shared_ptr<const Model> model,
                                                        const ExecutorLimits& limits,
                                                        const LoadProgress& progress) {
  ERNE_RETURN_IF_ERROR(CheckLimits(limits));
  const auto out_of_memory = [&] {
    return ResourceExhausted(
        StrCat("not enough memory for the reference executor: ", limits.num_blocks,
               " KV blocks of ", kKvBlockSize, " positions, ", limits.max_rows, " rows, ",
               limits.max_logit_rows, " rows with logits"));
  };
  try {
    auto executor = std::make_unique<ReferenceExecutor>(std::move(model), limits);
    if (progress) progress(1.0);
    return std::unique_ptr<Executor>(std::move(executor));
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::length_error&) {
    return out_of_memory();
  }
}

}  // namespace erne
