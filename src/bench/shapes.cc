#include "bench/shapes.h"

#include <algorithm>

#include "base/json.h"
#include "base/strings.h"

namespace erne::bench {
namespace {

// The published config.json of ERNIE-4.5-0.3B and of ERNIE-4.5-21B-A3B, and a small mixture of
// experts of the width of the former.
struct NamedShape {
  const char* name;
  const char* config;
};
constexpr NamedShape kShapes[] = {
    {"ernie-4.5-0.3b", R"({
      "model_type": "ernie4_5", "hidden_size": 1024, "num_hidden_layers": 18, "num_attention_heads": 16,
      "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 103424,
      "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
      "tie_word_embeddings": true, "use_bias": false, "bos_token_id": 1, "eos_token_id": 2})"},
    {"ernie-4.5-21b-a3b", R"({
      "model_type": "ernie4_5_moe", "hidden_size": 2560, "num_hidden_layers": 28, "num_attention_heads": 20,
      "num_key_value_heads": 4, "intermediate_size": 12288, "vocab_size": 103424,
      "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
      "tie_word_embeddings": true, "use_bias": false, "bos_token_id": 1, "eos_token_id": 2,
      "moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536, "moe_num_shared_experts": 2,
      "moe_layer_start_index": 1, "moe_layer_interval": 1})"},
    {"ernie-0.3b-8x2", R"({
      "model_type": "ernie4_5_moe", "hidden_size": 1024, "num_hidden_layers": 18, "num_attention_heads": 16,
      "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 103424,
      "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
      "tie_word_embeddings": true, "use_bias": false, "bos_token_id": 1, "eos_token_id": 2,
      "moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 1024, "moe_num_shared_experts": 1,
      "moe_layer_start_index": 1, "moe_layer_interval": 1})"},
};

}  // namespace

const std::vector<std::string>& ShapeNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const NamedShape& shape : kShapes) list.emplace_back(shape.name);
    return list;
  }();
  return names;
}

Result<ModelSpec> SpecOfShape(const std::string& name) {
  constexpr const char* kFlag = "--shape";
  const size_t colon = name.find(':');
  const std::string base = name.substr(0, colon);
  const auto* shape = std::find_if(std::begin(kShapes), std::end(kShapes),
                                   [&](const NamedShape& known) { return base == known.name; });
  if (shape == std::end(kShapes)) {
    return InvalidArgument(
        StrCat(kFlag, ": there is no shape '", base, "', there are ", Join(ShapeNames(), ", ")),
        kFlag);
  }
  ERNE_ASSIGN_OR_RETURN(const Json config, Json::Parse(shape->config));
  ERNE_ASSIGN_OR_RETURN(ModelSpec spec, SpecFromConfig(config));
  if (colon == std::string::npos) return spec;
  const auto layers = ParseNumber<int64_t>(std::string_view(name).substr(colon + 1));
  if (!layers || *layers < 1 || *layers > spec.num_layers()) {
    return InvalidArgument(
        StrCat(kFlag, ": '", name.substr(colon + 1), "' is no number of layers, ", base,
               " has 1 to ", spec.num_layers()),
        kFlag);
  }
  spec.layers.resize(static_cast<size_t>(*layers));
  return spec;
}

}  // namespace erne::bench
