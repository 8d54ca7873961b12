#include "model/loader.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/strings.h"
#include "base/thread_pool.h"

namespace erne {
namespace {

// A config can ask for millions of tensors that are not there; after so many faults nobody wants
// the rest.
constexpr size_t kMaxFaults = 10'000;
constexpr size_t kShownFaults = 10;

// Faults of one kind: the first few in full, then a count.
struct FaultList {
  std::vector<std::string> shown;
  size_t count = 0;

  void Add(const std::string& fault) {
    if (count++ < kShownFaults) shown.push_back(fault);
  }
  // "3 tensors are missing: a, b, c". `partial`: the search was given up.
  void Describe(std::string_view kind, bool partial, std::vector<std::string>& out) const {
    if (count == 0) return;
    const std::string total = StrCat(partial ? "at least " : "", count);
    out.push_back(StrCat(total, count == 1 ? " tensor is " : " tensors are ", kind, ": ",
                         Join(shown, ", "), count > shown.size() ? ", ..." : ""));
  }
};

// A 4-bit matrix whose parts are found and checked, not yet unpacked. The target has its sizes.
struct PendingUnpack {
  std::string name;
  LinearWeights* target = nullptr;
  const TensorView* qweight = nullptr;
  const TensorView* qzeros = nullptr;
  const TensorView* scales = nullptr;
  const TensorView* g_idx = nullptr;  // GPTQ; may be absent
  int64_t group = 0;
};

class Loader {
 public:
  Loader(const ModelSpec& spec, const Architecture& architecture,
         const QuantizationSpec& quantization, std::shared_ptr<const Checkpoint> checkpoint)
      : spec_(spec),
        architecture_(architecture),
        quantization_(quantization),
        checkpoint_(std::move(checkpoint)) {}

  Result<LoadedWeights> Load(bool unpack) {
    LoadedWeights loaded;
    BindModel(loaded.weights);
    if (!TooManyFaults()) FindUnused();
    ERNE_RETURN_IF_ERROR(Verdict());
    ERNE_RETURN_IF_ERROR(Unpack(unpack));
    loaded.weights.checkpoint = checkpoint_;
    loaded.precision = Precision();
    return loaded;
  }

 private:
  bool TooManyFaults() const { return missing_.count + wrong_.count >= kMaxFaults; }

  void BindModel(ModelWeights& out) {
    out.embedding = FloatTensor("model.embed_tokens.weight", {spec_.vocab_size, spec_.hidden});
    CountPrecision(out.embedding);
    out.final_norm = FloatTensor("model.norm.weight", {spec_.hidden});
    if (!spec_.tied_head) BindLinear("lm_head", spec_.vocab_size, spec_.hidden, false, out.head);
    out.layers.resize(
        spec_.layers.size());  // never resized again: unpacking keeps pointers into it
    for (size_t i = 0; i < out.layers.size() && !TooManyFaults(); ++i) BindLayer(i, out.layers[i]);
  }

  void BindLayer(size_t index, LayerWeights& out) {
    const std::string prefix = StrCat("model.layers.", index, ".");
    const AttentionSpec& attention = spec_.attention;
    out.input_norm = FloatTensor(prefix + "input_layernorm.weight", {spec_.hidden});
    out.post_norm = FloatTensor(prefix + "post_attention_layernorm.weight", {spec_.hidden});
    const std::string attn = prefix + "self_attn.";
    BindLinear(attn + "q_proj", attention.q_width(), spec_.hidden, attention.qkv_bias, out.q);
    BindLinear(attn + "k_proj", attention.kv_width(), spec_.hidden, attention.qkv_bias, out.k);
    BindLinear(attn + "v_proj", attention.kv_width(), spec_.hidden, attention.qkv_bias, out.v);
    BindLinear(attn + "o_proj", spec_.hidden, attention.q_width(), attention.output_bias, out.o);
    if (attention.qk_norm) {
      out.q_norm = FloatTensor(attn + "q_norm.weight", {attention.head_dim});
      out.k_norm = FloatTensor(attn + "k_norm.weight", {attention.head_dim});
    }
    const TensorNames& names = architecture_.names;
    if (spec_.layers[index] == FfnKind::kMoe) {
      BindMoe(StrCat(prefix, names.moe_block, "."), out.ffn.emplace<MoeWeights>());
    } else {
      BindMlp(StrCat(prefix, names.dense_mlp, "."), spec_.dense_intermediate,
              out.ffn.emplace<MlpWeights>());
    }
  }

  void BindMlp(const std::string& prefix, int64_t width, MlpWeights& out) {
    BindMlp(prefix, width, "gate_proj", "up_proj", "down_proj", out);
  }
  void BindMlp(const std::string& prefix, int64_t width, std::string_view gate, std::string_view up,
               std::string_view down, MlpWeights& out) {
    BindLinear(StrCat(prefix, gate), width, spec_.hidden, spec_.mlp_bias, out.gate);
    BindLinear(StrCat(prefix, up), width, spec_.hidden, spec_.mlp_bias, out.up);
    BindLinear(StrCat(prefix, down), spec_.hidden, width, spec_.mlp_bias, out.down);
  }

  void BindMoe(const std::string& prefix, MoeWeights& out) {
    const TensorNames& names = architecture_.names;
    const MoeSpec& moe = spec_.moe;
    out.router = FloatTensor(StrCat(prefix, names.router), {moe.routing.experts, spec_.hidden});
    if (moe.routing.correction_bias) {
      out.correction_bias = FloatTensor(StrCat(prefix, names.correction_bias),
                                        {1, moe.routing.experts}, Shape{moe.routing.experts});
    }
    out.experts.resize(static_cast<size_t>(moe.routing.experts));
    for (size_t e = 0; e < out.experts.size() && !TooManyFaults(); ++e) {
      BindMlp(StrCat(prefix, names.experts, ".", e, "."), moe.intermediate, names.expert_gate,
              names.expert_up, names.expert_down, out.experts[e]);
    }
    if (moe.shared_intermediate > 0) {
      BindMlp(StrCat(prefix, names.shared_expert, "."), moe.shared_intermediate,
              out.shared.emplace());
    }
  }

  void BindLinear(const std::string& name, int64_t rows, int64_t cols, bool bias,
                  LinearWeights& out) {
    if (checkpoint_->Find(name + ".qweight") != nullptr) {
      BindQuantized(name, rows, cols, out);
    } else {
      out.matrix = FloatTensor(name + ".weight", {rows, cols});
      CountPrecision(std::get<TensorView>(out.matrix));
    }
    if (bias) out.bias = FloatTensor(name + ".bias", {rows});
  }

  void BindQuantized(const std::string& name, int64_t rows, int64_t cols, LinearWeights& out) {
    const std::string qweight = name + ".qweight";
    if (quantization_.method == QuantMethod::kNone) {
      used_.insert(qweight);
      return wrong_.Add(
          StrCat("`", qweight, "` (4-bit, but config.json has no quantization_config)"));
    }
    const int64_t group = quantization_.GroupOf(cols);
    const bool gptq = quantization_.method == QuantMethod::kGptq;
    if (group % 2 != 0 || cols % group != 0 || rows % 8 != 0 || (gptq && cols % 8 != 0)) {
      used_.insert(qweight);
      return wrong_.Add(StrCat("`", qweight, "` ([", rows, ", ", cols,
                               "] cannot be 4-bit in groups of ", group, ")"));
    }
    Int4Matrix& sizes = out.matrix.emplace<Int4Matrix>();
    sizes.rows = rows;
    sizes.cols = cols;
    sizes.group = group;
    PendingUnpack job{.name = name, .target = &out, .group = group};
    const Shape packed = gptq ? Shape{cols / 8, rows} : Shape{cols, rows / 8};
    job.qweight = Find(qweight, packed, {}, IsInt32, "I32");
    job.qzeros = Find(name + ".qzeros", {cols / group, rows / 8}, {}, IsInt32, "I32");
    job.scales = Find(name + ".scales", {cols / group, rows}, {}, IsFloat, "F32, F16 or BF16");
    bool complete = job.qweight != nullptr && job.qzeros != nullptr && job.scales != nullptr;
    if (gptq && (quantization_.act_order || checkpoint_->Find(name + ".g_idx") != nullptr)) {
      job.g_idx = Find(name + ".g_idx", {cols}, {}, IsInt32, "I32");
      complete = complete && job.g_idx != nullptr;
    }
    if (!complete) return;
    pending_.push_back(std::move(job));
    bytes_by_precision_[StrCat(gptq ? "gptq" : "awq", " int4 (group ", group,
                               quantization_.act_order ? ", act-order)" : ")")] +=
        rows * (cols / 2);
  }

  static bool IsInt32(DType dtype) { return dtype == DType::kI32; }

  // An empty view when there is a fault (and then nobody sees it).
  TensorView FloatTensor(const std::string& name, const Shape& shape, const Shape& or_shape = {}) {
    const TensorView* found = Find(name, shape, or_shape, IsFloat, "F32, F16 or BF16");
    return found == nullptr ? TensorView{.dtype = DType::kF32, .shape = shape} : *found;
  }

  // The tensor when it has the right type and shape; else records the fault and returns nullptr.
  const TensorView* Find(const std::string& name, const Shape& shape, const Shape& or_shape,
                         bool (*right_type)(DType), std::string_view types) {
    const TensorView* found = checkpoint_->Find(name);
    if (found == nullptr) {
      missing_.Add(StrCat("`", name, "` ", ShapeString(shape)));
      return nullptr;
    }
    used_.insert(name);
    if (found->shape != shape && (or_shape.empty() || found->shape != or_shape)) {
      wrong_.Add(StrCat("`", name, "` (is ", ShapeString(found->shape), ", expected ",
                        ShapeString(shape), ")"));
      return nullptr;
    }
    if (!right_type(found->dtype)) {
      wrong_.Add(StrCat("`", name, "` (is ", DTypeName(found->dtype), ", expected ", types, ")"));
      return nullptr;
    }
    return found;
  }

  void CountPrecision(const TensorView& view) {
    bytes_by_precision_[ToLowerAscii(DTypeName(view.dtype))] += static_cast<int64_t>(view.bytes());
  }

  bool MaySkip(std::string_view name) const {
    if (spec_.tied_head && name.substr(0, 8) == "lm_head.") return true;
    // Tables that old checkpoints stored; they follow from the config.
    if (name.find("rotary_emb.inv_freq") != std::string_view::npos) return true;
    return std::any_of(
        architecture_.skipped.begin(), architecture_.skipped.end(),
        [name](std::string_view part) { return name.find(part) != std::string_view::npos; });
  }

  // AutoGPTQ writes a bias for every matrix it packs: all zeros where the model has none.
  bool IsZeroBias(std::string_view name, const TensorView& view) const {
    if (quantization_.method != QuantMethod::kGptq || !name.ends_with(".bias") ||
        !IsFloat(view.dtype))
      return false;
    const std::vector<float> values = ToFloats(view);
    return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
  }

  void FindUnused() {
    for (const auto& [name, view] : checkpoint_->tensors()) {
      if (used_.count(name) > 0 || MaySkip(name) || IsZeroBias(name, view)) continue;
      unused_.Add(StrCat("`", name, "`"));
    }
  }

  Status Verdict() const {
    std::vector<std::string> parts;
    missing_.Describe("missing", TooManyFaults(), parts);
    wrong_.Describe("of the wrong shape or type", TooManyFaults(), parts);
    unused_.Describe("not part of this architecture", TooManyFaults(), parts);
    if (parts.empty()) return {};
    return InvalidArgument(Join(parts, "; "));
  }

  // All 4-bit matrices now, by all threads, or later, by who wants them.
  Status Unpack(bool now) {
    for (const PendingUnpack& job : pending_) job.target->unpack = Unpacker(job);
    if (!now || pending_.empty()) return {};
    ThreadPool pool;
    std::vector<Status> results(pending_.size());
    pool.ParallelFor(static_cast<int64_t>(pending_.size()), 1,
                     [&](int64_t begin, int64_t end, int) {
                       for (int64_t i = begin; i < end; ++i) {
                         LinearWeights& target = *pending_[i].target;
                         Result<Int4Matrix> matrix = target.unpack();
                         if (matrix.ok()) {
                           target.matrix = std::move(matrix).value();
                         } else {
                           results[i] = matrix.status();
                         }
                         target.unpack = nullptr;
                       }
                     });
    for (Status& status : results) ERNE_RETURN_IF_ERROR(std::move(status));
    return {};
  }

  std::function<Result<Int4Matrix>()> Unpacker(const PendingUnpack& job) const {
    const std::string name = job.name;
    const int64_t group = job.group;
    const TensorView qweight = *job.qweight;
    const TensorView qzeros = *job.qzeros;
    const TensorView scales = *job.scales;
    if (quantization_.method == QuantMethod::kAwq)
      return [=] { return UnpackAwq(name, qweight, qzeros, scales, group); };
    const GptqZeros zeros = quantization_.gptq_zeros;
    const std::optional<TensorView> g_idx =
        job.g_idx == nullptr ? std::optional<TensorView>() : *job.g_idx;
    return [=] {
      return UnpackGptq(name, qweight, qzeros, scales, g_idx ? &*g_idx : nullptr, group, zeros);
    };
  }

  // What most bytes of the matrices are stored as.
  std::string Precision() const {
    const auto most =
        std::max_element(bytes_by_precision_.begin(), bytes_by_precision_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == bytes_by_precision_.end() ? "" : most->first;
  }

  const ModelSpec& spec_;
  const Architecture& architecture_;
  const QuantizationSpec& quantization_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::vector<PendingUnpack> pending_;
  std::set<std::string, std::less<>> used_;
  std::map<std::string, int64_t> bytes_by_precision_;
  FaultList missing_;
  FaultList wrong_;
  FaultList unused_;
};

}  // namespace

Result<LoadedWeights> LoadWeights(const ModelSpec& spec, const Architecture& architecture,
                                  const QuantizationSpec& quantization,
                                  std::shared_ptr<const Checkpoint> checkpoint, bool unpack) {
  return Loader(spec, architecture, quantization, std::move(checkpoint)).Load(unpack);
}

}  // namespace erne
