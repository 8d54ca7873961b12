#include "executor/cpu/packed_model.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/strings.h"
#include "executor/cpu/activation_form.h"

namespace erne::cpu {
namespace {

class Packer {
 public:
  Packer(std::shared_ptr<const Model> model, ThreadPool& pool, const PackTypes& types,
         const LoadProgress& progress)
      : model_(std::move(model)),
        spec_(model_->spec),
        pool_(pool),
        types_(types),
        progress_(progress) {
    // What was packed is not looked at again: loading takes the packed size and a part of a tensor.
    const Checkpoint* checkpoint = model_->weights.checkpoint.get();
    if (checkpoint == nullptr) return;
    types_.layers.packed_a_part =
        types_.head.packed_a_part = [checkpoint] { checkpoint->files().ReleasePages(); };
  }

  Result<PackedModel> Run() {
    const ModelWeights& weights = model_->weights;
    packed_.spec = spec_;
    if (static_cast<int64_t>(weights.layers.size()) != spec_.num_layers()) {
      return InvalidArgument(StrCat("the model has weights for ", weights.layers.size(), " of ",
                                    spec_.num_layers(), " layers"));
    }
    for (int64_t i = 0; i < spec_.num_layers(); ++i) {
      PackedLayer layer;
      ERNE_RETURN_IF_ERROR(PackLayer(StrCat("layer ", i), weights.layers[static_cast<size_t>(i)],
                                     spec_.layers[static_cast<size_t>(i)], layer));
      packed_.layers.push_back(std::move(layer));
      // The head counts as one more step.
      if (progress_)
        progress_(static_cast<double>(i + 1) / static_cast<double>(spec_.num_layers() + 1));
    }
    ERNE_RETURN_IF_ERROR(
        PackVector("the final norm", weights.final_norm, spec_.hidden, packed_.final_norm));
    ERNE_RETURN_IF_ERROR(PackEnds());
    if (progress_) progress_(1.0);
    return std::move(packed_);
  }

 private:
  // Embedding and head.
  Status PackEnds() {
    const ModelWeights& weights = model_->weights;
    const TensorView& embedding = weights.embedding;
    if (!IsFloat(embedding.dtype) || embedding.shape != Shape{spec_.vocab_size, spec_.hidden}) {
      return InvalidArgument(StrCat("the embedding is ", DTypeName(embedding.dtype), " ",
                                    ShapeString(embedding.shape), ", not ", spec_.vocab_size,
                                    " rows of ", spec_.hidden, " floats"));
    }
    if (!weights.head.present()) {
      LinearWeights tied;
      tied.matrix = embedding;
      return PackMatrix("the head", tied, spec_.vocab_size, spec_.hidden, types_.head,
                        packed_.head);
    }
    ERNE_RETURN_IF_ERROR(CopyEmbedding(embedding));
    return PackMatrix("the head", weights.head, spec_.vocab_size, spec_.hidden, types_.head,
                      packed_.head);
  }

  Status CopyEmbedding(const TensorView& from) {
    constexpr int64_t kPiece = int64_t{1} << 20;
    const auto bytes = static_cast<int64_t>(from.bytes());
    ERNE_ASSIGN_OR_RETURN(packed_.embedding_data, Buffer::Allocate("the embedding", from.bytes()));
    std::byte* to = packed_.embedding_data.data();
    pool_.ParallelFor(bytes, kPiece, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to + begin, from.data + begin, static_cast<size_t>(end - begin));
    });
    packed_.embedding = from;
    packed_.embedding->data = to;
    packed_.bytes += packed_.embedding_data.bytes();
    return {};
  }

  Status PackLayer(const std::string& name, const LayerWeights& from, FfnKind kind,
                   PackedLayer& to) {
    const AttentionSpec& a = spec_.attention;
    ERNE_RETURN_IF_ERROR(
        PackVector(name + " input norm", from.input_norm, spec_.hidden, to.input_norm));
    ERNE_RETURN_IF_ERROR(
        PackVector(name + " post norm", from.post_norm, spec_.hidden, to.post_norm));
    ERNE_RETURN_IF_ERROR(
        PackMatrix(name + " q", from.q, a.q_width(), spec_.hidden, types_.layers, to.q));
    ERNE_RETURN_IF_ERROR(
        PackMatrix(name + " k", from.k, a.kv_width(), spec_.hidden, types_.layers, to.k));
    ERNE_RETURN_IF_ERROR(
        PackMatrix(name + " v", from.v, a.kv_width(), spec_.hidden, types_.layers, to.v));
    ERNE_RETURN_IF_ERROR(
        PackMatrix(name + " o", from.o, spec_.hidden, a.q_width(), types_.layers, to.o));
    if (a.qk_norm) {
      if (!from.q_norm || !from.k_norm)
        return InvalidArgument(name + ": the norms of q and k are absent");
      ERNE_RETURN_IF_ERROR(PackVector(name + " q norm", *from.q_norm, a.head_dim, to.q_norm));
      ERNE_RETURN_IF_ERROR(PackVector(name + " k norm", *from.k_norm, a.head_dim, to.k_norm));
    }
    const auto* dense = std::get_if<MlpWeights>(&from.ffn);
    if ((kind == FfnKind::kDense) != (dense != nullptr)) {
      return InvalidArgument(name +
                             ": the feed-forward weights are not of the kind that the spec says");
    }
    if (dense != nullptr)
      return PackMlp(name + " mlp", *dense, spec_.dense_intermediate, to.dense.emplace());
    return PackMoe(name, std::get<MoeWeights>(from.ffn), to.moe.emplace());
  }

  Status PackMoe(const std::string& name, const MoeWeights& from, PackedMoe& to) {
    const MoeSpec& moe = spec_.moe;
    const int64_t experts = moe.routing.experts;
    LinearWeights router;
    router.matrix = from.router;
    ERNE_RETURN_IF_ERROR(
        PackMatrix(name + " router", router, experts, spec_.hidden, {}, to.router));
    if (moe.routing.correction_bias) {
      if (!from.correction_bias)
        return InvalidArgument(name + ": the router's correction bias is absent");
      ERNE_RETURN_IF_ERROR(PackVector(name + " correction bias", *from.correction_bias, experts,
                                      to.correction_bias));
    }
    if (static_cast<int64_t>(from.experts.size()) != experts) {
      return InvalidArgument(
          StrCat(name, ": weights for ", from.experts.size(), " of ", experts, " experts"));
    }
    to.experts.resize(from.experts.size());
    for (size_t e = 0; e < from.experts.size(); ++e) {
      ERNE_RETURN_IF_ERROR(
          PackMlp(StrCat(name, " expert ", e), from.experts[e], moe.intermediate, to.experts[e]));
    }
    if (moe.shared_intermediate > 0) {
      if (!from.shared) return InvalidArgument(name + ": the shared experts are absent");
      return PackMlp(name + " shared experts", *from.shared, moe.shared_intermediate,
                     to.shared.emplace());
    }
    return {};
  }

  Status PackMlp(const std::string& name, const MlpWeights& from, int64_t intermediate,
                 PackedMlp& to) {
    ERNE_RETURN_IF_ERROR(
        PackMatrix(name + " gate", from.gate, intermediate, spec_.hidden, types_.layers, to.gate));
    PackOptions like_gate = types_.layers;
    like_gate.like = &to.gate;
    ERNE_RETURN_IF_ERROR(
        PackMatrix(name + " up", from.up, intermediate, spec_.hidden, like_gate, to.up));
    return PackMatrix(name + " down", from.down, spec_.hidden, intermediate, types_.layers,
                      to.down);
  }

  Status PackMatrix(const std::string& name, const LinearWeights& from, int64_t rows, int64_t cols,
                    const PackOptions& options, PackedMatrix& to) {
    ERNE_ASSIGN_OR_RETURN(
        to, PackedMatrix::Pack(name, from, rows, cols, packed_.memory, pool_, options));
    packed_.bytes += to.bytes();
    const MatrixRef& ref = to.ref();
    packed_.max_row_bytes =
        std::max(packed_.max_row_bytes, FormOf(ref, types_.bf16_products).stride);
    if (ref.columns != nullptr)
      packed_.max_permuted_cols = std::max(packed_.max_permuted_cols, ref.cols);
    return {};
  }

  Status PackVector(const std::string& name, const TensorView& from, int64_t size,
                    std::vector<float>& to) {
    if (!IsFloat(from.dtype) || from.elements() != size) {
      return InvalidArgument(StrCat(name, " is ", DTypeName(from.dtype), " ",
                                    ShapeString(from.shape), ", not ", size, " floats"));
    }
    to = ToFloats(from);
    packed_.bytes += to.size() * sizeof(float);
    return {};
  }

  std::shared_ptr<const Model> model_;
  const ModelSpec& spec_;
  ThreadPool& pool_;
  PackTypes types_;
  const LoadProgress& progress_;
  PackedModel packed_;
};

}  // namespace

void PackedModel::Embed(int32_t token, float* out) const {
  if (embedding.has_value()) {
    CopyToFloat(*embedding, token * spec.hidden, {out, static_cast<size_t>(spec.hidden)});
  } else {
    head.CopyRow(token, out);
  }
}

Result<PackedModel> PackModel(std::shared_ptr<const Model> model, ThreadPool& pool,
                              const PackTypes& types, const LoadProgress& progress) {
  return Packer(std::move(model), pool, types, progress).Run();
}

}  // namespace erne::cpu
