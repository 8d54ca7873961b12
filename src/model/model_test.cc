#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model_test_util.h"

namespace erne {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a reference folder should turn into; fields that differ between the folders.
struct Expected {
  const char* folder;
  const char* precision;
  const char* layers;  // d: dense, m: MoE
  int64_t head_dim;
  bool tied;
  bool qkv_bias;
  bool output_bias;
  bool qk_norm;
  double theta;
  int64_t experts;
  int64_t top_k;
  int64_t shared;
};

class ReferenceModels : public ::testing::TestWithParam<Expected> {};

std::string LayerKinds(const ModelSpec& spec) {
  std::string kinds;
  for (const FfnKind kind : spec.layers) kinds += kind == FfnKind::kMoe ? 'm' : 'd';
  return kinds;
}

TEST_P(ReferenceModels, Spec) {
  const Expected& expected = GetParam();
  const auto files = OpenFolder(ReferenceFolder(expected.folder));
  ASSERT_TRUE(files.ok());
  const Result<ModelSpec> spec = LoadSpec(**files);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  const bool ernie = spec->architecture.substr(0, 5) == "ernie";
  EXPECT_EQ(spec->vocab_size, 320);
  EXPECT_EQ(spec->hidden, 64);
  EXPECT_EQ(spec->max_positions, 512);
  EXPECT_EQ(spec->norm_eps, 1e-5);
  EXPECT_EQ(spec->tied_head, expected.tied);
  EXPECT_EQ(LayerKinds(*spec), expected.layers);
  EXPECT_EQ(spec->has_moe(), expected.experts > 0);
  EXPECT_EQ(spec->attention.heads, 4);
  EXPECT_EQ(spec->attention.kv_heads, 2);
  EXPECT_EQ(spec->attention.head_dim, expected.head_dim);
  EXPECT_EQ(spec->attention.qkv_bias, expected.qkv_bias);
  EXPECT_EQ(spec->attention.output_bias, expected.output_bias);
  EXPECT_EQ(spec->mlp_bias, expected.output_bias);
  EXPECT_EQ(spec->attention.qk_norm, expected.qk_norm);
  EXPECT_EQ(spec->attention.rope.style, ernie ? RopeStyle::kInterleaved : RopeStyle::kHalves);
  EXPECT_EQ(spec->attention.rope.theta, expected.theta);
  EXPECT_EQ(spec->moe.routing.experts, expected.experts);
  EXPECT_EQ(spec->moe.routing.top_k, expected.top_k);
  EXPECT_EQ(spec->moe.routing.correction_bias, ernie && expected.experts > 0);
  EXPECT_TRUE(spec->moe.routing.renormalize);
  EXPECT_EQ(spec->moe.routing.norm_min, ernie && expected.experts > 0 ? 1e-12 : 0.0);
  EXPECT_EQ(spec->moe.shared_intermediate, expected.shared);
  EXPECT_EQ(spec->bos_token, 1);
  EXPECT_THAT(spec->eos_tokens, ElementsAre(2));
}

void ExpectLinear(const LinearWeights& linear, int64_t rows, int64_t cols, bool bias) {
  ASSERT_TRUE(linear.present());
  EXPECT_EQ(linear.rows(), rows);
  EXPECT_EQ(linear.cols(), cols);
  ASSERT_EQ(linear.bias.has_value(), bias);
  if (bias) {
    EXPECT_THAT(linear.bias->shape, ElementsAre(rows));
  }
}

void ExpectMlp(const MlpWeights& mlp, const ModelSpec& spec, int64_t width) {
  ExpectLinear(mlp.gate, width, spec.hidden, spec.mlp_bias);
  ExpectLinear(mlp.up, width, spec.hidden, spec.mlp_bias);
  ExpectLinear(mlp.down, spec.hidden, width, spec.mlp_bias);
}

TEST_P(ReferenceModels, Weights) {
  const Result<Model> model = LoadFolder(ReferenceFolder(GetParam().folder));
  ASSERT_TRUE(model.ok()) << model.status().message();
  const ModelSpec& spec = model->spec;
  const ModelWeights& weights = model->weights;
  EXPECT_EQ(model->precision, GetParam().precision);
  ASSERT_NE(weights.checkpoint, nullptr);
  EXPECT_THAT(weights.embedding.shape, ElementsAre(320, 64));
  EXPECT_THAT(weights.final_norm.shape, ElementsAre(64));
  EXPECT_EQ(weights.head.present(), !spec.tied_head);
  ASSERT_EQ(weights.layers.size(), spec.layers.size());
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    const AttentionSpec& attention = spec.attention;
    EXPECT_THAT(layer.input_norm.shape, ElementsAre(64));
    EXPECT_THAT(layer.post_norm.shape, ElementsAre(64));
    ExpectLinear(layer.q, attention.q_width(), 64, attention.qkv_bias);
    ExpectLinear(layer.k, attention.kv_width(), 64, attention.qkv_bias);
    ExpectLinear(layer.v, attention.kv_width(), 64, attention.qkv_bias);
    ExpectLinear(layer.o, 64, attention.q_width(), attention.output_bias);
    EXPECT_EQ(layer.q_norm.has_value(), attention.qk_norm);
    EXPECT_EQ(layer.k_norm.has_value(), attention.qk_norm);
    if (spec.layers[i] == FfnKind::kDense) {
      ExpectMlp(std::get<MlpWeights>(layer.ffn), spec, spec.dense_intermediate);
      continue;
    }
    const auto& moe = std::get<MoeWeights>(layer.ffn);
    EXPECT_THAT(moe.router.shape, ElementsAre(spec.moe.routing.experts, 64));
    ASSERT_EQ(moe.correction_bias.has_value(), spec.moe.routing.correction_bias);
    if (moe.correction_bias) {
      EXPECT_EQ(moe.correction_bias->elements(), spec.moe.routing.experts);
    }
    ASSERT_EQ(static_cast<int64_t>(moe.experts.size()), spec.moe.routing.experts);
    for (const MlpWeights& expert : moe.experts) ExpectMlp(expert, spec, spec.moe.intermediate);
    ASSERT_EQ(moe.shared.has_value(), spec.moe.shared_intermediate > 0);
    if (moe.shared) ExpectMlp(*moe.shared, spec, spec.moe.shared_intermediate);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ReferenceModels,
    ::testing::Values(
        Expected{"ernie4_5-dense", "f32", "ddd", 32, true, false, false, false, 5e5, 0, 0, 0},
        Expected{"ernie4_5-dense-bf16", "bf16", "ddd", 32, true, false, false, false, 5e5, 0, 0, 0},
        Expected{"ernie4_5-dense-bias-untied", "f32", "ddd", 32, false, true, true, false, 1e4, 0,
                 0, 0},
        Expected{"ernie4_5-dense-awq", "awq int4 (group 32)", "ddd", 32, true, false, false, false,
                 5e5, 0, 0, 0},
        Expected{"ernie4_5-dense-gptq", "gptq int4 (group 32)", "ddd", 32, true, false, false,
                 false, 5e5, 0, 0, 0},
        Expected{"ernie4_5-dense-gptq-actorder", "gptq int4 (group 32, act-order)", "ddd", 32, true,
                 false, false, false, 5e5, 0, 0, 0},
        Expected{"ernie4_5-moe-8x2", "f32", "dmmm", 16, true, false, false, false, 5e5, 8, 2, 0},
        Expected{"ernie4_5-moe-16x6-shared2", "f32", "dmmmm", 16, false, false, false, false, 5e5,
                 16, 6, 64},
        Expected{"ernie4_5-moe-interval2", "f32", "dmdmdm", 16, true, false, false, false, 5e5, 8,
                 2, 32},
        Expected{"llama-gqa", "f32", "ddd", 32, false, false, false, false, 1e4, 0, 0, 0},
        Expected{"llama3-rope-scaling", "f32", "ddd", 32, true, false, false, false, 5e5, 0, 0, 0},
        Expected{"qwen2", "f32", "ddd", 16, true, true, false, false, 1e6, 0, 0, 0},
        Expected{"qwen3", "f32", "ddd", 32, true, false, false, true, 1e6, 0, 0, 0},
        Expected{"qwen3_moe", "f32", "mmm", 32, false, false, false, true, 1e6, 8, 2, 0},
        Expected{"mixtral", "f32", "mmm", 32, false, false, false, false, 1e6, 8, 2, 0}),
    [](const auto& case_info) {
      std::string name = case_info.param.folder;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      return name;
    });

TEST(LoadModel, ErneMini) {
  const Result<Model> model = LoadFolder(ErneMiniFolder());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->precision, "awq int4 (group 64)");
  EXPECT_EQ(LayerKinds(model->spec), "dmmmmmmm");
  EXPECT_EQ(model->spec.attention.rope.theta, 10000.0);  // the older spelling
}

TEST(LoadModel, ViewsLiveAsLongAsTheModel) {
  Result<Model> model = LoadFolder(ReferenceFolder("ernie4_5-dense-bf16"));
  ASSERT_TRUE(model.ok());
  const Model copy = *model;
  model = InvalidArgument("gone");
  EXPECT_EQ(ToFloats(copy.weights.embedding).size(), 320U * 64);
}

TEST(LoadModel, MissingTensorsAreNamed) {
  EditableModel model("ernie4_5-moe-8x2");
  model.tensors.erase("model.layers.2.mlp.experts.5.up_proj.weight");
  model.tensors.erase("model.norm.weight");
  EXPECT_THAT(
      model.Fault(),
      AllOf(HasSubstr("memory: 2 tensors are missing"), HasSubstr("`model.norm.weight` [64]"),
            HasSubstr("`model.layers.2.mlp.experts.5.up_proj.weight` [32, 64]")));
}

TEST(LoadModel, TenAreShownAndTheRestCounted) {
  EditableModel model("ernie4_5-moe-8x2");
  for (auto it = model.tensors.begin(); it != model.tensors.end();) {
    it = it->first.find(".experts.") == std::string::npos ? std::next(it) : model.tensors.erase(it);
  }
  const std::string fault = model.Fault();
  EXPECT_THAT(fault, AllOf(HasSubstr("72 tensors are missing"), HasSubstr(", ...")));
  EXPECT_EQ(std::count(fault.begin(), fault.end(), '`'), 20);
}

TEST(LoadModel, WrongShapesShowBoth) {
  EditableModel model("ernie4_5-dense");
  model.tensors.at("model.layers.1.self_attn.k_proj.weight").shape = {32, 128};
  EXPECT_THAT(
      model.Fault(),
      AllOf(HasSubstr("`model.layers.1.self_attn.k_proj.weight` (is [32, 128], expected [64, 64])"),
            HasSubstr("1 tensor is of the wrong")));
}

TEST(LoadModel, WrongTypes) {
  EditableModel model("ernie4_5-dense");
  model.tensors.at("model.embed_tokens.weight").dtype = DType::kI32;
  EXPECT_THAT(model.Fault(), HasSubstr("`model.embed_tokens.weight` (is I32, expected"));
}

TEST(LoadModel, UnusedTensorsAreNamed) {
  EditableModel model("ernie4_5-dense");
  model.tensors["model.layers.3.input_layernorm.weight"] = model.tensors.at("model.norm.weight");
  EXPECT_THAT(model.Fault(),
              HasSubstr("1 tensor is not part of this architecture: `model.layers.3."));
}

TEST(LoadModel, HarmlessTensorsAreSkipped) {
  EditableModel model("ernie4_5-dense");
  const TensorView norm = model.tensors.at("model.norm.weight");
  model.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = norm;
  model.tensors["model.mtp_block.0.self_attn.q_proj.weight"] = norm;
  model.tensors["model.mtp_linear_proj.0.weight"] = norm;
  model.tensors["lm_head.weight"] = norm;  // the head is tied, so its shape does not matter
  EXPECT_TRUE(model.Load().ok()) << model.Fault();
  model.config.Set("tie_word_embeddings", false);
  EXPECT_THAT(model.Fault(), HasSubstr("`lm_head.weight` (is [64], expected [320, 64])"));
  EditableModel llama("llama-gqa");
  llama.tensors["model.mtp_linear_proj.0.weight"] = norm;  // nobody knows it there
  EXPECT_THAT(llama.Fault(), HasSubstr("mtp_linear_proj"));
}

TEST(LoadModel, CorrectionBiasOfEitherShape) {
  EditableModel model("ernie4_5-moe-8x2");
  model.tensors.at("model.layers.1.mlp.moe_statics.e_score_correction_bias").shape = {8};
  EXPECT_TRUE(model.Load().ok()) << model.Fault();
  model.tensors.erase("model.layers.1.mlp.moe_statics.e_score_correction_bias");
  EXPECT_THAT(model.Fault(), HasSubstr("e_score_correction_bias` [1, 8]"));
  // A config that says the router has none, and a checkpoint that has one, disagree.
  model.config.Set("moe_use_aux_free", false);
  EXPECT_THAT(model.Fault(), AllOf(HasSubstr("2 tensors are not part"),
                                   HasSubstr("model.layers.2.mlp.moe_statics")));
}

TEST(LoadModel, AnUnquantisedMatrixInAQuantisedModel) {
  EditableModel awq("ernie4_5-dense-awq");
  const EditableModel plain("ernie4_5-dense");
  const std::string name = "model.layers.1.mlp.up_proj";
  for (const char* part : {".qweight", ".qzeros", ".scales"}) awq.tensors.erase(name + part);
  awq.tensors[name + ".weight"] = plain.tensors.at(name + ".weight");
  EXPECT_TRUE(awq.Load().ok()) << awq.Fault();
  // Both forms at once: which one counts?
  awq.tensors[name + ".qweight"] = awq.tensors.at("model.layers.0.mlp.up_proj.qweight");
  EXPECT_THAT(awq.Fault(), AllOf(HasSubstr("up_proj.qzeros"), HasSubstr("not part"),
                                 HasSubstr("up_proj.weight")));
}

TEST(LoadModel, QuantisedParts) {
  EditableModel model("ernie4_5-dense-awq");
  const std::string name = "model.layers.0.self_attn.q_proj";
  model.tensors.erase(name + ".scales");
  model.tensors.at(name + ".qzeros").shape = {4, 8};
  EXPECT_THAT(model.Fault(),
              AllOf(HasSubstr("`" + name + ".scales` [2, 128]"),
                    HasSubstr("`" + name + ".qzeros` (is [4, 8], expected [2, 16])")));
}

TEST(LoadModel, QuantisedWithoutSaying) {
  EditableModel model("ernie4_5-dense-awq");
  model.config.Set("quantization_config", nullptr);
  EXPECT_THAT(model.Fault(), HasSubstr("config.json has no quantization_config"));
}

TEST(LoadModel, GroupsThatDoNotFit) {
  EditableModel model("ernie4_5-dense-awq");
  for (const int group : {6, 48, 1 << 30}) {
    model.config.AsObject().back().second.Set("group_size", group);
    EXPECT_THAT(model.Fault(), HasSubstr(StrCat("in groups of ", group))) << group;
  }
  model.config.AsObject().back().second.Set("group_size", 16);
  EXPECT_THAT(model.Fault(), HasSubstr(".qzeros` (is [2, 16], expected [4, 16])"));
}

TEST(LoadModel, ActOrderNeedsGroupIndices) {
  EditableModel model("ernie4_5-dense-gptq-actorder");
  model.tensors.erase("model.layers.0.mlp.up_proj.g_idx");
  EXPECT_THAT(model.Fault(), HasSubstr("`model.layers.0.mlp.up_proj.g_idx` [64]"));
  model.config.AsObject().back().second.Set("desc_act", false);  // then it may be absent
  EXPECT_TRUE(model.Load().ok()) << model.Fault();
}

TEST(LoadModel, ZeroBiasesOfGptqAreSkipped) {
  EditableModel model("ernie4_5-dense-gptq");
  std::vector<float> bias(128, 0.0F);
  model.tensors["model.layers.0.mlp.up_proj.bias"] = {
      DType::kF32, {128}, reinterpret_cast<std::byte*>(bias.data())};
  EXPECT_TRUE(model.Load().ok()) << model.Fault();
  bias[5] = 1;
  EXPECT_THAT(model.Fault(),
              HasSubstr("not part of this architecture: `model.layers.0.mlp.up_proj.bias`"));
}

// A config can ask for millions of tensors; the answer comes after a few thousand faults.
TEST(LoadModel, HostileSizesEndEarly) {
  EditableModel model("ernie4_5-moe-8x2");
  model.config.Set("num_hidden_layers", 1024);
  model.config.Set("moe_num_experts", 4096);
  model.config.Set("moe_layer_end_index", 1023);
  EXPECT_THAT(model.Fault(), HasSubstr("memory: at least 99"));
}

TEST(LoadModel, FilesAreNamed) {
  const std::string config = R"({"model_type": "gpt2"})";
  const auto load = [](std::map<std::string, std::span<const std::byte>> files) {
    return LoadModel(MakeEmbeddedFileSet("memory", std::move(files))).status().message();
  };
  EXPECT_THAT(load({}), HasSubstr("memory/config.json"));
  EXPECT_THAT(load({{"config.json", AsBytes("{")}}),
              HasSubstr("memory/config.json: invalid JSON at byte 1"));
  EXPECT_THAT(load({{"config.json", AsBytes("[]")}}),
              HasSubstr("memory/config.json: must be an object"));
  EXPECT_THAT(load({{"config.json", AsBytes(config)}}),
              HasSubstr("memory/config.json: model_type `gpt2`"));
  const std::string good = FolderConfig(ReferenceFolder("ernie4_5-dense")).Dump();
  EXPECT_THAT(load({{"config.json", AsBytes(good)}}), HasSubstr("memory: no weights"));
}

}  // namespace
}  // namespace erne
