// ModelSpec: what a decoder is made of. It says *what* is computed, never how: one parametrised decoder covers ERNIE-4.5
// (dense and MoE), Llama, Qwen and Mixtral, and an executor needs to know nothing else.
//
// A decoder with residual stream x [tokens, hidden]:
//   x = embed[token]
//   for each layer:  x += attention(norm(x));  x += ffn(norm(x))
//   logits = head(norm(x))
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace erne {

enum class RopeStyle {
  kInterleaved,  // rotates the pairs (2i, 2i + 1): ERNIE-4.5
  kHalves,       // rotates the pairs (i, i + head_dim / 2): Llama, Qwen, Mixtral
};

enum class RopeScaling { kNone, kLlama3 };

struct RopeSpec {
  RopeStyle style = RopeStyle::kHalves;
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  // kLlama3 (transformers modeling_rope_utils._compute_llama3_parameters):
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_positions = 0;
  // Rounds the frequencies to bfloat16, as torch's model.to(bfloat16) does to the rope buffers. No checkpoint asks
  // for it (from_pretrained keeps them float32); the expected values of one golden model were made that way.
  bool bf16_frequencies = false;
};

struct AttentionSpec {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool qkv_bias = false;
  bool output_bias = false;
  bool qk_norm = false;  // RMSNorm over head_dim on q and k before rope: Qwen3
  RopeSpec rope;

  int64_t q_width() const { return heads * head_dim; }
  int64_t kv_width() const { return kv_heads * head_dim; }
};

// How a router turns logits [experts] into chosen experts and their weights.
struct RoutingSpec {
  int64_t experts = 0;
  int64_t top_k = 0;
  // p = softmax(logits); chosen = top-k of (p + correction bias), ties to the lower index; weights = p[chosen].
  bool correction_bias = false;  // the bias selects only, it never weights (ERNIE-4.5)
  bool renormalize = true;       // weights /= max(sum of weights, norm_min)
  double norm_min = 0.0;
};

struct MoeSpec {
  RoutingSpec routing;
  int64_t intermediate = 0;         // width of one expert
  int64_t shared_intermediate = 0;  // width of the fused shared MLP, plainly added; 0 = none
};

enum class FfnKind { kDense, kMoe };

struct ModelSpec {
  std::string architecture;  // the config's model_type: "ernie4_5_moe"
  int64_t vocab_size = 0;
  int64_t hidden = 0;
  int64_t max_positions = 0;  // context length that the checkpoint was made for
  double norm_eps = 1e-5;
  bool tied_head = false;
  AttentionSpec attention;    // the same in every layer
  int64_t dense_intermediate = 0;
  bool mlp_bias = false;      // on dense, expert and shared MLPs
  MoeSpec moe;                // meaningful when some layer is kMoe
  std::vector<FfnKind> layers;  // [num_layers]
  int64_t bos_token = -1;       // -1: the config names none
  std::vector<int64_t> eos_tokens;

  int64_t num_layers() const { return static_cast<int64_t>(layers.size()); }
  bool has_moe() const {
    for (const FfnKind kind : layers) {
      if (kind == FfnKind::kMoe) return true;
    }
    return false;
  }
};

}  // namespace erne
