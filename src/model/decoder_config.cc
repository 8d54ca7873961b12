#include "model/decoder_config.h"

#include <algorithm>

#include "base/strings.h"

namespace erne {
namespace {

constexpr double kMaxRopeTheta = 1e15;
// Generous: real configs list up to about five.
constexpr size_t kMaxEosTokens = 256;

void ReadLlama3Scaling(ConfigReader& rope, const ConfigReader& config, int64_t max_positions,
                       RopeSpec& out) {
  out.scaling = RopeScaling::kLlama3;
  out.factor = rope.Number("factor", 1.0, 1e6);
  out.low_freq_factor = rope.Number("low_freq_factor", 1e-6, 1e6);
  out.high_freq_factor = rope.Number("high_freq_factor", 1e-6, 1e6);
  if (rope.ok() && out.high_freq_factor <= out.low_freq_factor) {
    rope.Fail("high_freq_factor", StrCat("is ", out.high_freq_factor,
                                         ", must be above low_freq_factor, ", out.low_freq_factor));
  }
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  if (rope.Has(kOriginal)) {
    out.original_max_positions = rope.Count(kOriginal);
  } else {  // as transformers: the top level, then the context length itself
    ConfigReader top(config.object());
    out.original_max_positions = top.CountOr(kOriginal, max_positions);
    rope.Adopt(top.status());
  }
}

// Newer configs say `rope_parameters: {rope_type, rope_theta, ...}`, older ones `rope_theta` and
// `rope_scaling: {type or rope_type, ...}` or null.
RopeSpec ReadRope(ConfigReader& config, const DecoderDefaults& defaults, int64_t max_positions) {
  RopeSpec rope;
  rope.style = defaults.rope_style;
  rope.theta = config.NumberOr("rope_theta", defaults.rope_theta, 1.0, kMaxRopeTheta);
  if (config.NumberOr("partial_rotary_factor", 1.0, 0.0, 1.0) != 1.0) {
    config.Fail("partial_rotary_factor", "below 1 (rope over a part of the head) is not supported");
  }
  const std::string_view key = config.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!config.Has(key)) return rope;
  const Json& object = *config.object().Find(key);
  if (!object.is_object()) {
    config.Fail(key, StrCat("must be an object, not ", object.KindName()));
    return rope;
  }
  ConfigReader reader(object, StrCat(key, "."));
  for (const auto& [name, value] : object.AsObject()) {
    if (value.is_object())
      reader.Fail(name.substr(0, 100), "is an object: rope by layer type is not supported");
  }
  rope.theta = reader.NumberOr("rope_theta", rope.theta, 1.0, kMaxRopeTheta);
  if (reader.NumberOr("partial_rotary_factor", 1.0, 0.0, 1.0) != 1.0) {
    reader.Fail("partial_rotary_factor", "below 1 (rope over a part of the head) is not supported");
  }
  const std::string_view type_key = reader.Has("rope_type") ? "rope_type" : "type";
  const std::string type = reader.TextOr(type_key, "default");
  if (type == "llama3") {
    ReadLlama3Scaling(reader, config, max_positions, rope);
  } else if (type != "default") {
    reader.Fail(
        type_key,
        StrCat("`", type, "` is a rope scaling that is not supported (default and llama3 are)"));
  }
  config.Adopt(reader.status());
  return rope;
}

// -1 and null mean that there is none.
int64_t ReadToken(ConfigReader& reader, std::string_view key, int64_t vocab_size) {
  return reader.IntOr(key, -1, -1, vocab_size - 1);
}

// One id or a list of them.
std::vector<int64_t> ReadEosTokens(ConfigReader& reader, int64_t vocab_size) {
  constexpr std::string_view kKey = "eos_token_id";
  std::vector<int64_t> tokens;
  const Json* value = reader.object().Find(kKey);
  if (value == nullptr || !value->is_array()) {
    const int64_t token = ReadToken(reader, kKey, vocab_size);
    if (token >= 0) tokens.push_back(token);
    return tokens;
  }
  if (value->AsArray().size() > kMaxEosTokens) {
    reader.Fail(kKey,
                StrCat("lists ", value->AsArray().size(), " tokens, more than ", kMaxEosTokens));
    return tokens;
  }
  for (const Json& item : value->AsArray()) {
    if (!item.is_int() || item.AsInt() < 0 || item.AsInt() >= vocab_size) {
      reader.Fail(kKey, StrCat("must list token ids from 0 to ", vocab_size - 1));
      return tokens;
    }
    if (std::find(tokens.begin(), tokens.end(), item.AsInt()) == tokens.end())
      tokens.push_back(item.AsInt());
  }
  return tokens;
}

AttentionSpec ReadAttention(ConfigReader& reader, int64_t hidden) {
  AttentionSpec attention;
  attention.heads = reader.Count("num_attention_heads");
  attention.kv_heads = reader.CountOr("num_key_value_heads", attention.heads);
  if (reader.ok() && attention.heads % attention.kv_heads != 0) {
    reader.Fail("num_attention_heads",
                StrCat("is ", attention.heads, ", no multiple of num_key_value_heads, ",
                       attention.kv_heads));
  }
  if (reader.ok() && !reader.Has("head_dim") && hidden % attention.heads != 0) {
    reader.Fail("hidden_size", StrCat("is ", hidden, ", no multiple of num_attention_heads, ",
                                      attention.heads, ", and there is no head_dim"));
  }
  attention.head_dim = reader.CountOr("head_dim", hidden / attention.heads);
  if (reader.ok() && attention.head_dim % 2 != 0) {
    reader.Fail("head_dim",
                StrCat("is ", attention.head_dim, ", must be even (rope rotates pairs)"));
  }
  if (reader.ok() && attention.q_width() > kMaxConfigNumber) {
    reader.Fail("num_attention_heads",
                StrCat("times head_dim is ", attention.q_width(), ", above ", kMaxConfigNumber));
  }
  return attention;
}

}  // namespace

ModelSpec ReadDecoder(ConfigReader& reader, const DecoderDefaults& defaults) {
  ModelSpec spec;
  spec.architecture = reader.TextOr("model_type", "");
  spec.vocab_size = reader.Count("vocab_size");
  spec.hidden = reader.Count("hidden_size");
  spec.max_positions = reader.Count("max_position_embeddings");
  const int64_t layers = reader.Count("num_hidden_layers", kMaxLayers);
  spec.norm_eps = reader.NumberOr("rms_norm_eps", defaults.norm_eps, 0.0, 1.0);
  spec.tied_head = reader.FlagOr("tie_word_embeddings", defaults.tied_head);
  const std::string activation = reader.TextOr("hidden_act", "silu");
  if (activation != "silu")
    reader.Fail("hidden_act", StrCat("`", activation, "` is not supported (silu is)"));
  spec.attention = ReadAttention(reader, spec.hidden);
  spec.attention.rope = ReadRope(reader, defaults, spec.max_positions);
  spec.bos_token = ReadToken(reader, "bos_token_id", spec.vocab_size);
  spec.eos_tokens = ReadEosTokens(reader, spec.vocab_size);
  spec.layers.assign(static_cast<size_t>(layers), FfnKind::kDense);
  return spec;
}

void RefuseSlidingWindow(ConfigReader& reader, const ModelSpec& spec, bool switched_on,
                         int64_t first_windowed_layer) {
  bool reaches_some_layer = first_windowed_layer < spec.num_layers();
  if (const Json* types = reader.object().Find("layer_types");
      types != nullptr && !types->is_null()) {
    if (!types->is_array()) return reader.Fail("layer_types", "must be a list");
    reaches_some_layer = false;
    for (const Json& type : types->AsArray()) {
      if (!type.is_string()) return reader.Fail("layer_types", "must list strings");
      if (type.AsString() == "sliding_attention") {
        reaches_some_layer = true;
      } else if (type.AsString() != "full_attention") {
        return reader.Fail("layer_types", StrCat("names `", type.AsString().substr(0, 100),
                                                 "`, which is not supported"));
      }
    }
  }
  if (!switched_on || !reader.Has("sliding_window")) return;
  const int64_t window = reader.IntOr("sliding_window", 0, 0, kMaxConfigNumber);
  if (reaches_some_layer && window < spec.max_positions) {
    reader.Fail("sliding_window",
                StrCat("is ", window, ", shorter than the context of ", spec.max_positions,
                       ": sliding-window attention is not supported"));
  }
}

void RefuseQwenSlidingWindow(ConfigReader& reader, const ModelSpec& spec) {
  const bool switched_on = reader.FlagOr("use_sliding_window", false);
  RefuseSlidingWindow(reader, spec, switched_on,
                      reader.IntOr("max_window_layers", 28, 0, kMaxConfigNumber));
}

void ReadAttentionBias(ConfigReader& reader, ModelSpec& spec) {
  const bool bias = reader.FlagOr("attention_bias", false);
  spec.attention.qkv_bias = bias;
  spec.attention.output_bias = bias;
}

}  // namespace erne
