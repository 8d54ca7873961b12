#include "cli/serve_options.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/cuda/cuda_executor.h"

namespace erne {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ServeOptions Parse(const std::vector<std::string>& arguments) {
  const auto line = ParseServeFlags(arguments, Language::kEnglish);
  EXPECT_TRUE(line.ok()) << line.status().message();
  return line.ok() ? line->options : ServeOptions();
}

std::string Error(const std::vector<std::string>& arguments) {
  const auto line = ParseServeFlags(arguments, Language::kEnglish);
  EXPECT_FALSE(line.ok());
  return line.ok() ? "" : line.status().message();
}

TEST(ServeOptionsTest, NothingNamedServesTheEmbeddedModelLocally) {
  const ServeOptions options = Parse({});
  EXPECT_EQ(options.model, "");
  EXPECT_EQ(options.host, "127.0.0.1");
  EXPECT_EQ(options.port, 8000);
  EXPECT_EQ(options.ui_port, 8001);
  EXPECT_EQ(options.executor, FindCudaDevice().ok() ? "cuda" : "cpu");
  EXPECT_THAT(options.warnings, IsEmpty());
}

TEST(ServeOptionsTest, TheTutorialsCommandLine) {
  const ServeOptions options =
      Parse({"--model", "DIR", "--host", "0.0.0.0", "--port", "8000", "--tensor-parallel-size", "1",
             "--dtype", "half", "--quantization", "awq", "--enable-prefix-caching",
             "--max-model-len", "2048", "--gpu-memory-utilization", "0.9"});
  EXPECT_EQ(options.model, "DIR");
  EXPECT_EQ(options.host, "0.0.0.0");
  EXPECT_EQ(options.dtype, "half");
  EXPECT_EQ(options.precision.quantization, "awq");
  EXPECT_EQ(options.max_model_len, 2048);
  EXPECT_EQ(options.memory_utilization, 0.9);
  EXPECT_TRUE(options.prefix_caching);
  EXPECT_THAT(options.warnings, IsEmpty());
}

TEST(ServeOptionsTest, PrefixCachingIsOnUntilItIsTurnedOff) {
  EXPECT_TRUE(Parse({}).prefix_caching);
  EXPECT_FALSE(Parse({"--no-enable-prefix-caching"}).prefix_caching);
}

TEST(ServeOptionsTest, SpeculationInVllmsSpelling) {
  EXPECT_EQ(Parse({}).speculation.max_draft_tokens, 4);
  EXPECT_EQ(Parse({"--speculative-config", "off"}).speculation.max_draft_tokens, 0);
  const SpeculationOptions set =
      Parse({"--speculative-config",
             R"({"method": "ngram", "num_speculative_tokens": 6, "prompt_lookup_max": 3})"})
          .speculation;
  EXPECT_EQ(set.max_draft_tokens, 6);
  EXPECT_EQ(set.rule.max_ngram, 3);
  EXPECT_EQ(set.rule.min_ngram, 2);
  EXPECT_TRUE(set.measured);
  const auto fault = [](const char* text) { return Error({"--speculative-config", text}); };
  EXPECT_THAT(fault("on"), HasSubstr("'on' is not auto, off or a JSON object"));
  EXPECT_THAT(fault(R"({"method": "eagle"})"), HasSubstr("the method is ngram"));
  EXPECT_THAT(fault(R"({"num_speculative_tokens": 0})"), HasSubstr("from 1 to 64"));
  EXPECT_THAT(fault(R"({"draft_model": "x"})"), HasSubstr("'draft_model' is not known"));
}

TEST(ServeOptionsTest, TheModelByPositionOrFlag) {
  EXPECT_EQ(Parse({"DIR"}).model, "DIR");
  EXPECT_EQ(Parse({"DIR", "--model", "DIR"}).model, "DIR");
  EXPECT_THAT(Error({"A", "--model", "B"}), HasSubstr("two models"));
}

TEST(ServeOptionsTest, AFolderAfterTheServedNamesIsTheModel) {
  std::string pattern = (std::filesystem::temp_directory_path() / "erne-model-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::string folder = pattern;
  const ServeOptions options = Parse({"--served-model-name", "foo", "bar", folder});
  EXPECT_EQ(options.model, folder);
  EXPECT_THAT(options.served_names, ElementsAre("foo", "bar"));
  EXPECT_THAT(Parse({"DIR", "--served-model-name", "foo", folder}).served_names,
              ElementsAre("foo", folder))
      << "the model is named: a name may be a path";
  EXPECT_THAT(Parse({"--served-model-name", "foo", folder + "/none"}).served_names,
              ElementsAre("foo", folder + "/none"));
  EXPECT_THAT(Error({"--served-model-name", folder}),
              HasSubstr("write erne serve " + folder + " --served-model-name NAME"));

  // Without a slash it takes more to be a model.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directories(folder + "/qwen");
  std::filesystem::current_path(folder);
  EXPECT_EQ(Parse({"--served-model-name", "foo", "qwen"}).model, "");
  std::ofstream("qwen/config.json") << "{}";
  EXPECT_EQ(Parse({"--served-model-name", "foo", "qwen"}).model, "qwen");
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
}

TEST(ServeOptionsTest, WhatIsLogged) {
  EXPECT_EQ(Parse({}).stats_interval_s, 60);
  EXPECT_EQ(Parse({"--stats-interval", "0"}).stats_interval_s, 0);
  EXPECT_THAT(Error({"--stats-interval", "-1"}), HasSubstr("--stats-interval"));
  EXPECT_TRUE(Parse({"--disable-log-stats"}).disable_log_stats);
  EXPECT_TRUE(Parse({"--enable-log-requests"}).log_requests);
  EXPECT_THAT(Parse({"--disable-log-stats", "--enable-log-requests"}).warnings, IsEmpty());
}

TEST(ServeOptionsTest, WhatThisVersionCannotDoIsNamed) {
  EXPECT_THAT(Error({"--tensor-parallel-size", "2"}), HasSubstr("one device"));
  EXPECT_THAT(Error({"-tp=4"}), HasSubstr("one device"));
  if (!FindCudaDevice().ok()) {
    EXPECT_THAT(Error({"--device", "cuda"}), HasSubstr("--device cuda: "));
  }
  EXPECT_THAT(Error({"--quantization", "fp8"}), HasSubstr("awq, gptq, none, int8, int4"));
  EXPECT_THAT(Error({"--ssl-keyfile", "key.pem"}), HasSubstr("TLS"));
  EXPECT_THAT(Error({"--reasoning-parser", "thoughts"}), HasSubstr("--reasoning-parser"));
  EXPECT_THAT(Error({"--tool-call-parser", "pythonic"}), HasSubstr("--tool-call-parser"));
  EXPECT_THAT(Error({"--gpu-memory-utilization", "90"}), HasSubstr("0.01..1"));
}

TEST(ServeOptionsTest, VariablesForTheTemplate) {
  EXPECT_EQ(Parse({}).template_variables, Json::MakeObject());
  EXPECT_EQ(
      Parse({"--default-chat-template-kwargs", R"({"enable_thinking":false})"}).template_variables,
      Json::Of({{"enable_thinking", false}}));
  EXPECT_THAT(Error({"--default-chat-template-kwargs", "[1]"}), HasSubstr("'[1]' is not a JSON"));
}

TEST(ServeOptionsTest, TypesOfTheKvCache) {
  EXPECT_EQ(Parse({}).kv_cache_dtype, "auto");
  for (const char* dtype :
       {"auto", "f32", "float32", "bf16", "bfloat16", "f16", "float16", "half", "int8", "INT8"}) {
    EXPECT_EQ(Parse({"--kv-cache-dtype", dtype}).kv_cache_dtype, dtype);
  }
  EXPECT_THAT(Error({"--kv-cache-dtype", "fp8"}), HasSubstr("int8 takes the same memory"));
  EXPECT_THAT(Error({"--kv-cache-dtype", "int4"}),
              HasSubstr("there are auto, f32 (float32), bf16 (bfloat16)"));
}

TEST(ServeOptionsTest, SizesOfTheKvCache) {
  EXPECT_EQ(Parse({}).kv_cache_memory, 0);
  EXPECT_EQ(Parse({"--kv-cache-memory", "512M"}).kv_cache_memory, 512 << 20);
  EXPECT_EQ(Parse({"--kv-cache-memory-bytes", "2GiB"}).kv_cache_memory, int64_t{2} << 30);
  EXPECT_EQ(Parse({"--kv-cache-memory", "auto"}).kv_cache_memory, 0);
  EXPECT_THAT(Error({"--kv-cache-memory", "0"}), HasSubstr("--kv-cache-memory"));
  EXPECT_THAT(Error({"--kv-cache-memory", "much"}), HasSubstr("not a whole number"));
}

TEST(ServeOptionsTest, HarmlessForeignFlagsWarn) {
  EXPECT_THAT(
      Parse({"--trust-remote-code", "--disable-log-requests", "--swap-space", "4"}).warnings,
      Contains(HasSubstr("never runs code")));
  EXPECT_THAT(Parse({"--pipeline-parallel-size", "1"}).warnings,
              ElementsAre(HasSubstr("changes nothing")));
}

TEST(ServeOptionsTest, HelpIsInTheUsersLanguage) {
  EXPECT_THAT(ParseServeFlags({"--help"}, Language::kEnglish)->help,
              HasSubstr("Usage: erne serve"));
  EXPECT_THAT(ParseServeFlags({"--help"}, Language::kChinese)->help, HasSubstr("用法：erne serve"));
}

}  // namespace
}  // namespace erne
