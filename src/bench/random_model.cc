// MakeRandomModel. Element i of tensor t is a function of (seed, t, i) alone: SplitMix64 of a
// counter, so that any thread can draw any part.
//
// Sizes. The inputs of every product are near 1 (norms make them so), so weights with a standard
// deviation of 1 / sqrt(inputs) give outputs near 1. What layers add to the residual stream is
// scaled by 1 / sqrt(2 layers), as GPT-2 did, so that the stream too ends near 1. The embedding has
// kLogitSpread / sqrt(hidden): so have the logits of a tied head a standard deviation of
// kLogitSpread.
#include <algorithm>
#include <cmath>
#include <functional>
#include <new>
#include <optional>
#include <utility>

#include "base/machine.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "bench/shapes.h"

namespace erne::bench {
namespace {

constexpr double kLogitSpread = 2.0;
// Of norms around 1, and of the biases that choose experts around 0.
constexpr double kNormSpread = 0.1;
constexpr double kCorrectionSpread = 0.01;
// Columns that share a scale, as AutoAWQ does unasked.
constexpr int64_t kAwqGroup = 128;
// Elements that one thread draws at a time: a tenth of a millisecond.
constexpr int64_t kPiece = int64_t{1} << 16;
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

// Steele, Lea, Flood 2014: "Fast splittable pseudorandom number generators".
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// The random numbers of one tensor.
class Stream {
 public:
  explicit Stream(uint64_t seed) : seed_(seed) {}
  uint64_t Bits(int64_t i) const { return Mix(seed_ + static_cast<uint64_t>(i + 1) * kGolden); }
  // Mean 0, standard deviation 1, within +-3.5: the sum of four uniform numbers of 16 bits.
  float Normal(int64_t i) const {
    const uint64_t bits = Bits(i);
    const uint64_t sum =
        (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
    // sqrt(4 / 12) of 2^16.
    constexpr float kDeviation = 37837.227F;
    return (static_cast<float>(sum) - 2 * 65535.0F) / kDeviation;
  }

 private:
  uint64_t seed_;
};

// A model and the memory of its weights.
struct OwnedModel {
  Model model;
  std::vector<std::unique_ptr<std::byte[]>> memory;
};

class Drawer {
 public:
  Drawer(const ModelSpec& spec, WeightForm form, uint64_t seed, int threads)
      : spec_(spec),
        form_(form),
        seed_(Mix(seed)),
        pool_(threads),
        added_(1.0 / std::sqrt(2.0 * static_cast<double>(spec.num_layers()))) {}

  std::shared_ptr<OwnedModel> Draw() {
    owned_ = std::make_shared<OwnedModel>();
    owned_->model.spec = spec_;
    owned_->model.precision = Precision();
    ModelWeights& out = owned_->model.weights;
    const double spread = kLogitSpread / std::sqrt(static_cast<double>(spec_.hidden));
    out.embedding = Floats(FloatType(), {spec_.vocab_size, spec_.hidden}, 0, spread);
    out.final_norm = Norm(spec_.hidden);
    if (!spec_.tied_head) {
      out.head.matrix = Floats(FloatType(), {spec_.vocab_size, spec_.hidden}, 0, spread);
    }
    out.layers.resize(spec_.layers.size());
    for (size_t i = 0; i < out.layers.size(); ++i) DrawLayer(spec_.layers[i], out.layers[i]);
    return std::move(owned_);
  }

 private:
  DType FloatType() const {
    switch (form_) {
      case WeightForm::kF32:
        return DType::kF32;
      case WeightForm::kBF16:
        return DType::kBF16;
      case WeightForm::kF16:
      case WeightForm::kAwq:
        break;
    }
    return DType::kF16;
  }
  std::string Precision() const {
    if (form_ == WeightForm::kAwq) return StrCat("awq int4 (group ", kAwqGroup, ")");
    return ToLowerAscii(DTypeName(FloatType()));
  }

  void DrawLayer(FfnKind kind, LayerWeights& out) {
    const AttentionSpec& a = spec_.attention;
    out.input_norm = Norm(spec_.hidden);
    out.post_norm = Norm(spec_.hidden);
    out.q = Linear(a.q_width(), spec_.hidden, a.qkv_bias);
    out.k = Linear(a.kv_width(), spec_.hidden, a.qkv_bias);
    out.v = Linear(a.kv_width(), spec_.hidden, a.qkv_bias);
    out.o = Linear(spec_.hidden, a.q_width(), a.output_bias, added_);
    if (a.qk_norm) {
      out.q_norm = Norm(a.head_dim);
      out.k_norm = Norm(a.head_dim);
    }
    if (kind == FfnKind::kDense) {
      DrawMlp(spec_.dense_intermediate, out.ffn.emplace<MlpWeights>());
    } else {
      DrawMoe(out.ffn.emplace<MoeWeights>());
    }
  }

  void DrawMoe(MoeWeights& out) {
    const MoeSpec& moe = spec_.moe;
    const double spread = 1.0 / std::sqrt(static_cast<double>(spec_.hidden));
    out.router = Floats(DType::kF32, {moe.routing.experts, spec_.hidden}, 0, spread);
    if (moe.routing.correction_bias) {
      out.correction_bias = Floats(DType::kF32, {1, moe.routing.experts}, 0, kCorrectionSpread);
    }
    out.experts.resize(static_cast<size_t>(moe.routing.experts));
    for (MlpWeights& expert : out.experts) DrawMlp(moe.intermediate, expert);
    if (moe.shared_intermediate > 0) DrawMlp(moe.shared_intermediate, out.shared.emplace());
  }

  void DrawMlp(int64_t width, MlpWeights& out) {
    out.gate = Linear(width, spec_.hidden, spec_.mlp_bias);
    out.up = Linear(width, spec_.hidden, spec_.mlp_bias);
    // silu(gate) * up of two normal numbers has a deviation near 0.6.
    constexpr double kGated = 0.6;
    out.down = Linear(spec_.hidden, width, spec_.mlp_bias, added_ / kGated);
  }

  // Inputs near 1 give outputs near `size`.
  LinearWeights Linear(int64_t rows, int64_t cols, bool bias, double size = 1.0) {
    LinearWeights out;
    const double spread = size / std::sqrt(static_cast<double>(cols));
    const int64_t group = AwqGroup(cols);
    if (form_ == WeightForm::kAwq && group > 0) {
      out.matrix = Int4(rows, cols, group, spread);
    } else {
      out.matrix = Floats(FloatType(), {rows, cols}, 0, spread);
    }
    if (bias) out.bias = Floats(FloatType(), {rows}, 0, kNormSpread);
    return out;
  }
  // The largest even group up to kAwqGroup that divides the columns; 0: there is none.
  static int64_t AwqGroup(int64_t cols) {
    for (int64_t group = std::min(kAwqGroup, cols); group >= 2; --group) {
      if (group % 2 == 0 && cols % group == 0) return group;
    }
    return 0;
  }

  TensorView Norm(int64_t width) { return Floats(FloatType(), {width}, 1, kNormSpread); }

  TensorView Floats(DType type, Shape shape, double mean, double deviation) {
    TensorView view{.dtype = type, .shape = std::move(shape)};
    owned_->memory.push_back(std::make_unique_for_overwrite<std::byte[]>(view.bytes()));
    std::byte* const data = owned_->memory.back().get();
    view.data = data;
    const Stream stream = NextStream();
    const auto value = [stream, m = static_cast<float>(mean), d = static_cast<float>(deviation)](
                           int64_t i) { return m + d * stream.Normal(i); };
    switch (type) {
      case DType::kF32:
        Fill<float>(data, view.elements(), value);
        break;
      case DType::kBF16:
        Fill<uint16_t>(data, view.elements(), [&](int64_t i) { return FloatToBf16(value(i)); });
        break;
      default:
        Fill<uint16_t>(data, view.elements(), [&](int64_t i) { return FloatToF16(value(i)); });
        break;
    }
    return view;
  }

  // Whole bytes of weights, zeros around the middle, and scales such that the products have the
  // deviation: q - zero is uniform over sixteen values, which has sqrt((256 - 1) / 12).
  Int4Matrix Int4(int64_t rows, int64_t cols, int64_t group, double deviation) {
    constexpr double kUniform = 4.6098;
    Int4Matrix out;
    out.rows = rows;
    out.cols = cols;
    out.group = group;
    const int64_t groups = rows * (cols / group);
    out.q.resize(static_cast<size_t>(rows * cols / 2));
    out.scales.resize(static_cast<size_t>(groups));
    out.zeros.resize(static_cast<size_t>(groups));
    const Stream q = NextStream();
    Fill<uint8_t>(out.q.data(), rows * cols / 2,
                  [&](int64_t i) { return static_cast<uint8_t>(q.Bits(i) >> 56); });
    const Stream rest = NextStream();
    const auto size = static_cast<float>(deviation / kUniform);
    Fill<float>(out.scales.data(), groups, [&](int64_t i) {
      return F16ToFloat(FloatToF16(size * (1 + 0.1F * rest.Normal(i))));
    });
    Fill<uint8_t>(out.zeros.data(), groups,
                  [&](int64_t i) { return static_cast<uint8_t>(7 + (rest.Bits(i) & 1)); });
    return out;
  }

  Stream NextStream() { return Stream(Mix(seed_ + ++streams_ * kGolden)); }

  // data[i] = value(i) for i below `count`.
  template <typename T, typename Value>
  void Fill(void* data, int64_t count, const Value& value) {
    auto* const out = static_cast<T*>(data);
    pool_.ParallelFor(count, kPiece, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) out[i] = value(i);
    });
  }

  const ModelSpec& spec_;
  const WeightForm form_;
  const uint64_t seed_;
  uint64_t streams_ = 0;
  ThreadPool pool_;
  const double added_;  // what an output of a layer is scaled by
  std::shared_ptr<OwnedModel> owned_;
};

// Elements of all matrices.
double Elements(const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  const auto hidden = static_cast<double>(spec.hidden);
  double all = static_cast<double>(spec.vocab_size) * hidden * (spec.tied_head ? 1 : 2);
  for (const FfnKind kind : spec.layers) {
    all += 2 * hidden * static_cast<double>(a.q_width() + a.kv_width());
    const int64_t width =
        kind == FfnKind::kDense
            ? spec.dense_intermediate
            : spec.moe.routing.experts * spec.moe.intermediate + spec.moe.shared_intermediate;
    all += 3 * hidden * static_cast<double>(width);
  }
  return all;
}

double BytesOf(const ModelSpec& spec, WeightForm form) {
  const double elements = Elements(spec);
  if (form == WeightForm::kF32) return 4 * elements;
  if (form != WeightForm::kAwq) return 2 * elements;
  const double head = static_cast<double>(spec.vocab_size) * static_cast<double>(spec.hidden) *
                      (spec.tied_head ? 1 : 2);
  // Half a byte, and five bytes for a group.
  return 2 * head + (elements - head) * (0.5 + 5.0 / static_cast<double>(kAwqGroup));
}

}  // namespace

Result<std::shared_ptr<const Model>> MakeRandomModel(const ModelSpec& spec, WeightForm form,
                                                     uint64_t seed, int threads) {
  // An executor packs them into its own layout before these go.
  constexpr double kCopies = 2;
  const double bytes = kCopies * BytesOf(spec, form);
  const uint64_t available = AvailableMemory();
  if (available > 0 && bytes > static_cast<double>(available)) {
    return ResourceExhausted(
        StrCat("random weights of this shape, and the executor's copy of them, take ",
               FormatBytes(static_cast<uint64_t>(bytes)), ", and ", FormatBytes(available),
               " are free; --shape NAME:LAYERS takes the first layers alone"));
  }
  try {
    const std::shared_ptr<OwnedModel> owned = Drawer(spec, form, seed, threads).Draw();
    return std::shared_ptr<const Model>(owned, &owned->model);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(StrCat("no memory for random weights of ",
                                    FormatBytes(static_cast<uint64_t>(bytes / kCopies))));
  }
}

}  // namespace erne::bench
