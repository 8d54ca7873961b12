// config.json -> ModelSpec: old and new spellings, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model.h"
#include "model/model_test_util.h"
#include "model/quantization.h"

namespace erne {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The config of a reference model with fields set ({"head_dim", nullptr}) or removed ({"-head_dim",
// ...}).
Json Edited(const std::string& folder, const std::vector<Json::Member>& edits) {
  Json config = FolderConfig(ReferenceFolder(folder));
  for (const auto& [key, value] : edits) {
    if (key[0] != '-') {
      config.Set(key, value);
      continue;
    }
    std::erase_if(config.AsObject(),
                  [name = key.substr(1)](const Json::Member& m) { return m.first == name; });
  }
  return config;
}

ModelSpec Spec(const std::string& folder, const std::vector<Json::Member>& edits) {
  Result<ModelSpec> spec = SpecFromConfig(Edited(folder, edits));
  EXPECT_TRUE(spec.ok()) << spec.status().message();
  return spec.ok() ? std::move(spec).value() : ModelSpec{};
}

std::string Fault(const std::string& folder, const std::vector<Json::Member>& edits) {
  const Result<ModelSpec> spec = SpecFromConfig(Edited(folder, edits));
  return spec.ok() ? "no fault" : spec.status().message();
}

TEST(Spec, KnownArchitectures) {
  EXPECT_THAT(KnownArchitectures(), ElementsAre("ernie4_5", "ernie4_5_moe", "llama", "mixtral",
                                                "qwen2", "qwen3", "qwen3_moe"));
}

TEST(Spec, UnknownArchitectures) {
  EXPECT_THAT(Fault("llama-gqa", {{"model_type", "gpt_neox"}}),
              AllOf(HasSubstr("`gpt_neox`"), HasSubstr("ernie4_5, ernie4_5_moe, llama")));
  EXPECT_THAT(Fault("llama-gqa", {{"-model_type", nullptr}}), HasSubstr("`model_type` is missing"));
  EXPECT_THAT(Fault("llama-gqa", {{"model_type", 5}}), HasSubstr("`model_type` must be a string"));
  EXPECT_EQ(SpecFromConfig(Json(5)).status().code(), StatusCode::kInvalidArgument);
}

TEST(Spec, VisionLanguageModelsAreRefusedByName) {
  for (const char* type :
       {"ernie4_5_moe_vl", "ernie4_5_vl_moe", "qwen2_vl", "qwen2_5_vl", "qwen3_vl_moe", "llava"}) {
    EXPECT_THAT(Fault("llama-gqa", {{"model_type", type}}),
                AllOf(HasSubstr(type), HasSubstr("vision-language")));
  }
  EXPECT_THAT(Fault("ernie4_5-moe-8x2", {{"moe_num_experts", Json::Array{64, 64}}}),
              HasSubstr("vision-language"));
  EXPECT_THAT(Fault("ernie4_5-dense", {{"vision_config", Json::MakeObject()}}),
              HasSubstr("vision-language"));
  EXPECT_EQ(Fault("ernie4_5-dense", {{"vision_config", nullptr}}), "no fault");
}

TEST(Spec, Ernie21B) {
  // The published config of ERNIE-4.5-21B-A3B: older spelling, no head_dim, no moe_layer_end_index.
  const Json config =
      Json::Parse(R"({"model_type": "ernie4_5_moe", "hidden_size": 2560, "num_hidden_layers": 28,
      "num_attention_heads": 20, "num_key_value_heads": 4, "intermediate_size": 12288, "moe_intermediate_size": 1536,
      "moe_num_experts": 64, "moe_k": 6, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
      "moe_layer_interval": 1, "moe_use_aux_free": true, "vocab_size": 103424, "tie_word_embeddings": true,
      "use_bias": false, "rope_theta": 500000, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
      "bos_token_id": 1, "eos_token_id": 2})")
          .value();
  const Result<ModelSpec> spec = SpecFromConfig(config);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->attention.head_dim, 128);
  EXPECT_EQ(spec->attention.rope.theta, 500000.0);
  EXPECT_EQ(spec->moe.shared_intermediate, 3072);
  EXPECT_EQ(spec->moe.routing.norm_min, 1e-12);
  EXPECT_EQ(spec->layers.front(), FfnKind::kDense);
  EXPECT_EQ(std::count(spec->layers.begin(), spec->layers.end(), FfnKind::kMoe), 27);
}

std::string MoeLayers(const std::string& folder, const std::vector<Json::Member>& edits) {
  std::string kinds;
  for (const FfnKind kind : Spec(folder, edits).layers) kinds += kind == FfnKind::kMoe ? 'm' : 'd';
  return kinds;
}

TEST(Spec, ErnieMoeLayers) {
  const char* folder = "ernie4_5-moe-interval2";  // six layers, 1..5 every second
  EXPECT_EQ(MoeLayers(folder, {{"moe_layer_end_index", -1}}), "dmdmdm");
  EXPECT_EQ(MoeLayers(folder, {{"-moe_layer_end_index", nullptr}}), "dmdmdm");
  EXPECT_EQ(MoeLayers(folder, {{"moe_layer_end_index", nullptr}}), "dmdmdm");
  EXPECT_EQ(MoeLayers(folder, {{"moe_layer_end_index", 4}}), "dmdmdd");
  EXPECT_EQ(MoeLayers(folder, {{"moe_layer_end_index", 28}}), "dmdmdm");
  EXPECT_EQ(MoeLayers(folder, {{"moe_layer_start_index", 2}}), "dddmdm");
  EXPECT_EQ(MoeLayers(folder, {{"moe_layer_start_index", 0}, {"moe_layer_interval", 3}}), "ddmddm");
  EXPECT_EQ(MoeLayers(folder, {{"moe_layer_interval", 1}}), "dmmmmm");
}

TEST(Spec, QwenMoeLayers) {
  EXPECT_EQ(MoeLayers("qwen3_moe", {{"decoder_sparse_step", 2}}), "dmd");
  EXPECT_EQ(MoeLayers("qwen3_moe", {{"mlp_only_layers", Json::Array{0, 2}}}), "dmd");
  EXPECT_FALSE(Spec("qwen3_moe", {{"-norm_topk_prob", nullptr}}).moe.routing.renormalize);
  EXPECT_EQ(Spec("qwen3_moe", {{"-num_local_experts", nullptr}, {"num_experts", 128}})
                .moe.routing.experts,
            128);
  EXPECT_THAT(Fault("qwen3_moe", {{"mlp_only_layers", 5}}), HasSubstr("`mlp_only_layers`"));
  EXPECT_THAT(Fault("qwen3_moe", {{"mlp_only_layers", Json::Array{"x"}}}),
              HasSubstr("`mlp_only_layers`"));
}

TEST(Spec, OlderRopeSpelling) {
  const std::vector<Json::Member> plain = {{"-rope_parameters", nullptr}, {"rope_theta", 1234.5}};
  EXPECT_EQ(Spec("llama-gqa", plain).attention.rope.theta, 1234.5);
  EXPECT_EQ(Spec("llama-gqa", {{"-rope_parameters", nullptr}}).attention.rope.theta, 10000.0);
  EXPECT_EQ(Spec("ernie4_5-dense", {{"-rope_parameters", nullptr}}).attention.rope.theta, 500000.0);
  EXPECT_EQ(Spec("mixtral", {{"-rope_parameters", nullptr}}).attention.rope.theta, 1e6);
  for (const char* type_key : {"rope_type", "type"}) {
    const Json scaling = Json::Of({{type_key, "llama3"},
                                   {"factor", 8.0},
                                   {"low_freq_factor", 1.0},
                                   {"high_freq_factor", 4.0},
                                   {"original_max_position_embeddings", 8192}});
    const RopeSpec rope =
        Spec("llama-gqa",
             {{"-rope_parameters", nullptr}, {"rope_theta", 500000.0}, {"rope_scaling", scaling}})
            .attention.rope;
    EXPECT_EQ(rope.scaling, RopeScaling::kLlama3) << type_key;
    EXPECT_EQ(rope.theta, 500000.0);
    EXPECT_EQ(rope.factor, 8.0);
    EXPECT_EQ(rope.low_freq_factor, 1.0);
    EXPECT_EQ(rope.high_freq_factor, 4.0);
    EXPECT_EQ(rope.original_max_positions, 8192);
  }
}

TEST(Spec, NewerRopeSpelling) {
  const RopeSpec rope = Spec("llama3-rope-scaling", {}).attention.rope;
  EXPECT_EQ(rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(rope.factor, 8.0);
  EXPECT_EQ(rope.original_max_positions, 64);
  EXPECT_EQ(rope.theta, 500000.0);
}

TEST(Spec, RopeFaults) {
  const auto rope = [](const std::vector<Json::Member>& members) {
    Json object = Json::MakeObject();
    for (const auto& [key, value] : members) object.Set(key, value);
    return Fault("llama-gqa", {{"rope_parameters", object}});
  };
  for (const char* type : {"linear", "dynamic", "yarn", "longrope", "mrope"}) {
    EXPECT_THAT(rope({{"rope_type", type}}),
                AllOf(HasSubstr("`rope_parameters.rope_type`"), HasSubstr(type)));
  }
  EXPECT_THAT(Fault("llama-gqa", {{"-rope_parameters", nullptr},
                                  {"rope_scaling", Json::Of({{"type", "linear"}})}}),
              AllOf(HasSubstr("`rope_scaling.type`"), HasSubstr("`linear`")));
  EXPECT_THAT(rope({{"rope_type", "llama3"}}), HasSubstr("`rope_parameters.factor` is missing"));
  const std::vector<Json::Member> backwards = {
      {"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}};
  EXPECT_THAT(rope(backwards), HasSubstr("`rope_parameters.high_freq_factor`"));
  EXPECT_THAT(rope({{"rope_theta", 0}}), HasSubstr("`rope_parameters.rope_theta`"));
  EXPECT_THAT(rope({{"rope_theta", "big"}}), HasSubstr("must be a number"));
  EXPECT_THAT(rope({{"partial_rotary_factor", 0.5}}), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(rope({{"full_attention", Json::MakeObject()}}),
              HasSubstr("`rope_parameters.full_attention`"));
  EXPECT_THAT(Fault("llama-gqa", {{"rope_parameters", 5}}),
              HasSubstr("`rope_parameters` must be an object"));
}

TEST(Spec, Biases) {
  const ModelSpec llama = Spec("llama-gqa", {{"attention_bias", true}, {"mlp_bias", true}});
  EXPECT_TRUE(llama.attention.qkv_bias && llama.attention.output_bias && llama.mlp_bias);
  const ModelSpec qwen3 = Spec("qwen3", {{"attention_bias", true}});
  EXPECT_TRUE(qwen3.attention.qkv_bias && qwen3.attention.output_bias);
  EXPECT_FALSE(Spec("qwen2", {}).attention.output_bias);
}

TEST(Spec, AbsentFields) {
  EXPECT_EQ(Spec("llama-gqa", {{"-head_dim", nullptr}}).attention.head_dim, 16);
  EXPECT_EQ(Spec("llama-gqa", {{"head_dim", nullptr}}).attention.head_dim, 16);
  EXPECT_EQ(Spec("llama-gqa", {{"-num_key_value_heads", nullptr}}).attention.kv_heads, 4);
  EXPECT_EQ(Spec("llama-gqa", {{"-rms_norm_eps", nullptr}}).norm_eps, 1e-6);
  EXPECT_EQ(Spec("ernie4_5-dense", {{"-rms_norm_eps", nullptr}}).norm_eps, 1e-5);
  EXPECT_TRUE(Spec("ernie4_5-dense", {{"-tie_word_embeddings", nullptr}}).tied_head);
  EXPECT_FALSE(Spec("llama-gqa", {{"-tie_word_embeddings", nullptr}}).tied_head);
  EXPECT_EQ(Spec("llama-gqa", {{"-hidden_act", nullptr}}).hidden, 64);
}

TEST(Spec, Tokens) {
  EXPECT_THAT(Spec("llama-gqa", {{"eos_token_id", Json::Array{5, 7, 5}}}).eos_tokens,
              ElementsAre(5, 7));
  EXPECT_THAT(Spec("llama-gqa", {{"eos_token_id", nullptr}}).eos_tokens, IsEmpty());
  EXPECT_THAT(Spec("llama-gqa", {{"-eos_token_id", nullptr}}).eos_tokens, IsEmpty());
  EXPECT_EQ(Spec("llama-gqa", {{"bos_token_id", nullptr}}).bos_token, -1);
  EXPECT_THAT(Fault("llama-gqa", {{"eos_token_id", 320}}), HasSubstr("`eos_token_id`"));
  EXPECT_THAT(Fault("llama-gqa", {{"eos_token_id", Json::Array{2, 320}}}),
              HasSubstr("`eos_token_id`"));
  EXPECT_THAT(Fault("llama-gqa", {{"eos_token_id", "x"}}), HasSubstr("`eos_token_id`"));
  EXPECT_THAT(Fault("llama-gqa", {{"eos_token_id", Json::Array(300, Json(1))}}),
              HasSubstr("300 tokens"));
  EXPECT_THAT(Fault("llama-gqa", {{"bos_token_id", 320}}), HasSubstr("`bos_token_id`"));
}

TEST(Spec, SlidingWindows) {
  EXPECT_EQ(Fault("qwen2", {{"sliding_window", 64}}), "no fault");  // switched off
  const std::vector<Json::Member> on = {
      {"use_sliding_window", true}, {"-layer_types", nullptr}, {"sliding_window", 64}};
  const auto with = [&](std::vector<Json::Member> more) {
    more.insert(more.begin(), on.begin(), on.end());
    return more;
  };
  EXPECT_EQ(Fault("qwen2", on), "no fault");  // max_window_layers 28 of 3 layers: reaches none
  EXPECT_THAT(Fault("qwen2", with({{"max_window_layers", 1}})),
              AllOf(HasSubstr("`sliding_window`"), HasSubstr("64")));
  EXPECT_EQ(Fault("qwen2", with({{"max_window_layers", 1}, {"sliding_window", 512}})), "no fault");
  EXPECT_THAT(
      Fault("qwen3", with({{"layer_types", Json::Array{"full_attention", "sliding_attention"}}})),
      HasSubstr("`sliding_window`"));
  EXPECT_THAT(Fault("qwen3", {{"layer_types", Json::Array{"linear_attention"}}}),
              AllOf(HasSubstr("`layer_types`"), HasSubstr("linear_attention")));
  EXPECT_THAT(Fault("qwen3", {{"layer_types", 5}}), HasSubstr("`layer_types`"));
  EXPECT_THAT(Fault("qwen3_moe", {{"use_sliding_window", true}, {"sliding_window", 64}}),
              HasSubstr("`sliding_window`"));
  EXPECT_THAT(Fault("mixtral", {{"sliding_window", 64}}), HasSubstr("`sliding_window`"));
  EXPECT_EQ(Fault("mixtral", {{"sliding_window", 4096}}), "no fault");
}

TEST(Spec, Activations) {
  EXPECT_THAT(Fault("llama-gqa", {{"hidden_act", "gelu"}}),
              AllOf(HasSubstr("`hidden_act`"), HasSubstr("`gelu`")));
  EXPECT_THAT(Fault("llama-gqa", {{"hidden_act", 5}}), HasSubstr("`hidden_act`"));
  EXPECT_THAT(Fault("ernie4_5-moe-8x2", {{"moe_gate_act", "sigmoid"}}),
              HasSubstr("`moe_gate_act` `sigmoid`"));
}

struct NumberFault {
  const char* folder;
  const char* field;
  Json value;
};

TEST(Spec, ImpossibleNumbersAreNamed) {
  const Json huge(int64_t{1} << 40);
  const NumberFault cases[] = {
      {"ernie4_5-dense", "vocab_size", 0},
      {"ernie4_5-dense", "vocab_size", huge},
      {"ernie4_5-dense", "hidden_size", -64},
      {"ernie4_5-dense", "hidden_size", 64.5},
      {"ernie4_5-dense", "hidden_size", "64"},
      {"ernie4_5-dense", "hidden_size", nullptr},
      {"ernie4_5-dense", "intermediate_size", 0},
      {"ernie4_5-dense", "intermediate_size", huge},
      {"ernie4_5-dense", "num_hidden_layers", 0},
      {"ernie4_5-dense", "num_hidden_layers", 1025},
      {"ernie4_5-dense", "num_attention_heads", 0},
      {"ernie4_5-dense", "num_attention_heads", 3},  // kv heads are 2
      {"ernie4_5-dense", "num_attention_heads", int64_t{1} << 30},
      {"ernie4_5-dense", "num_key_value_heads", 0},
      {"ernie4_5-dense", "head_dim", 0},
      {"ernie4_5-dense", "head_dim", 31},
      {"ernie4_5-dense", "max_position_embeddings", 0},
      {"ernie4_5-dense", "max_position_embeddings", huge},
      {"ernie4_5-dense", "rms_norm_eps", -1.0},
      {"ernie4_5-dense", "rms_norm_eps", 2.0},
      {"ernie4_5-dense", "tie_word_embeddings", 1},
      {"ernie4_5-dense", "use_bias", "no"},
      {"ernie4_5-moe-8x2", "moe_num_experts", 0},
      {"ernie4_5-moe-8x2", "moe_num_experts", 4097},
      {"ernie4_5-moe-8x2", "moe_k", 0},
      {"ernie4_5-moe-8x2", "moe_k", 9},
      {"ernie4_5-moe-8x2", "moe_intermediate_size", 0},
      {"ernie4_5-moe-8x2", "moe_num_shared_experts", -1},
      {"ernie4_5-moe-8x2", "moe_layer_interval", 0},
      {"ernie4_5-moe-8x2", "moe_layer_start_index", -1},
      {"ernie4_5-moe-8x2", "moe_layer_end_index", -2},
      {"ernie4_5-moe-8x2", "moe_norm_min", -1.0},
      {"qwen3_moe", "num_experts_per_tok", 9},
      {"qwen3_moe", "decoder_sparse_step", 0},
      {"mixtral", "num_local_experts", 0},
      {"mixtral", "num_experts_per_tok", 9},
  };
  for (const NumberFault& number : cases) {
    const Result<ModelSpec> spec =
        SpecFromConfig(Edited(number.folder, {{number.field, number.value}}));
    ASSERT_FALSE(spec.ok()) << number.field << " = " << number.value.Dump();
    EXPECT_THAT(spec.status().message(), HasSubstr(StrCat("`", number.field, "`")))
        << number.value.Dump();
    EXPECT_EQ(spec.status().param(), number.field);
  }
}

TEST(Spec, ProductsAreBounded) {
  EXPECT_THAT(Fault("ernie4_5-moe-8x2",
                    {{"moe_intermediate_size", int64_t{1} << 31}, {"moe_num_shared_experts", 2}}),
              HasSubstr("`moe_num_shared_experts`"));
  EXPECT_THAT(Fault("llama-gqa", {{"num_attention_heads", 1 << 20}, {"head_dim", 1 << 20}}),
              HasSubstr("`num_attention_heads`"));
  EXPECT_THAT(Fault("llama-gqa", {{"-head_dim", nullptr}, {"hidden_size", 66}}),
              HasSubstr("`hidden_size`"));
}

TEST(Quantization, Fields) {
  const auto read = [](const std::vector<Json::Member>& members) {
    Json section = Json::MakeObject();
    for (const auto& [key, value] : members) section.Set(key, value);
    return ReadQuantization(Json::Of({{"quantization_config", section}}));
  };
  const auto awq =
      read({{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"version", "GEMM"}});
  ASSERT_TRUE(awq.ok()) << awq.status().message();
  EXPECT_EQ(awq->method, QuantMethod::kAwq);
  EXPECT_EQ(awq->GroupOf(4096), 128);
  const auto gptq = read({{"quant_method", "gptq"},
                          {"bits", 4},
                          {"group_size", -1},
                          {"checkpoint_format", "gptq_v2"}});
  ASSERT_TRUE(gptq.ok()) << gptq.status().message();
  EXPECT_EQ(gptq->gptq_zeros, GptqZeros::kPlain);
  EXPECT_EQ(gptq->GroupOf(4096), 4096);
  EXPECT_EQ(ReadQuantization(Json::MakeObject())->method, QuantMethod::kNone);

  const auto fault = [&](const std::vector<Json::Member>& members) {
    return read(members).status().message();
  };
  EXPECT_THAT(fault({{"quant_method", "fp8"}}),
              AllOf(HasSubstr("`quantization_config.quant_method`"), HasSubstr("fp8")));
  EXPECT_THAT(fault({{"quant_method", "awq"}, {"bits", 8}, {"group_size", 32}}),
              HasSubstr("`quantization_config.bits` is 8"));
  EXPECT_THAT(fault({{"quant_method", "awq"}, {"bits", 4}}),
              HasSubstr("`quantization_config.group_size` is missing"));
  EXPECT_THAT(fault({{"quant_method", "awq"}, {"bits", 4}, {"group_size", 0}}),
              HasSubstr("group_size"));
  EXPECT_THAT(fault({{"quant_method", "awq"}, {"bits", 4}, {"group_size", 33}}),
              HasSubstr("must be even"));
  EXPECT_THAT(fault({{"quant_method", "awq"}, {"version", "gemv"}}),
              HasSubstr("`quantization_config.version` `gemv`"));
  EXPECT_THAT(fault({{"quant_method", "awq"}, {"zero_point", false}}), HasSubstr("zero_point"));
  EXPECT_THAT(fault({{"quant_method", "gptq"}, {"checkpoint_format", "marlin"}}),
              HasSubstr("`marlin`"));
  EXPECT_THAT(ReadQuantization(Json::Of({{"quantization_config", 5}})).status().message(),
              HasSubstr("an object"));
}

}  // namespace
}  // namespace erne
