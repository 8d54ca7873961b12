#include "formats/checkpoint.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "formats/safetensors_builder.h"

namespace erne {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One float tensor per name.
std::string Shard(const std::vector<std::pair<std::string, float>>& tensors) {
  SafetensorsBuilder builder;
  for (const auto& [name, value] : tensors) builder.Add<float>(name, DType::kF32, {1}, {value});
  return builder.Build();
}

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "checkpoint.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, std::string_view content) {
    std::ofstream out(folder_ / name, std::ios::binary);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  // {"a": "one.safetensors"} as weight_map.
  void WriteIndex(const std::vector<std::pair<std::string, std::string>>& weight_map) {
    Json map = Json::MakeObject();
    for (const auto& [tensor, shard] : weight_map) map.Set(tensor, shard);
    Write("model.safetensors.index.json",
          Json::Of({{"metadata", Json::MakeObject()}, {"weight_map", map}}).Dump());
  }
  Result<std::shared_ptr<const Checkpoint>> Open() {
    auto files = OpenFolder(folder_.string());
    if (!files.ok()) return files.status();
    return Checkpoint::Open(*files);
  }
  std::string Fault() {
    const auto result = Open();
    return result.ok() ? "no fault" : result.status().message();
  }

  std::filesystem::path folder_;
};

TEST_F(CheckpointTest, OneFile) {
  Write("model.safetensors", Shard({{"a", 1}, {"b", 2}}));
  const auto checkpoint = Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->tensors().size(), 2U);
  EXPECT_EQ((*checkpoint)->total_bytes(), 8U);
  EXPECT_EQ((*checkpoint)->files().path(), folder_.string());
  ASSERT_NE((*checkpoint)->Find("b"), nullptr);
  EXPECT_THAT(ToFloats(*(*checkpoint)->Find("b")), ElementsAre(2));
  EXPECT_EQ((*checkpoint)->Find("c"), nullptr);
}

TEST_F(CheckpointTest, IndexAndTwoShards) {
  Write("one.safetensors", Shard({{"a", 1}, {"b", 2}}));
  Write("two.safetensors", Shard({{"c", 3}}));
  WriteIndex({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}});
  const auto checkpoint = Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->tensors().size(), 3U);
  EXPECT_EQ((*checkpoint)->total_bytes(), 12U);
  EXPECT_THAT(ToFloats(*(*checkpoint)->Find("c")), ElementsAre(3));
}

TEST_F(CheckpointTest, OneFileWinsOverAnIndex) {
  Write("model.safetensors", Shard({{"a", 1}}));
  WriteIndex({{"a", "gone.safetensors"}});
  EXPECT_TRUE(Open().ok());
}

TEST_F(CheckpointTest, ViewsOutliveTheFileSet) {
  Write("model.safetensors", Shard({{"a", 1}}));
  const auto checkpoint = Open();  // its FileSet has no other owner by now
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_THAT(ToFloats(*(*checkpoint)->Find("a")), ElementsAre(1));
}

TEST_F(CheckpointTest, NoWeights) {
  EXPECT_THAT(Fault(), AllOf(HasSubstr(folder_.string()), HasSubstr("no weights")));
  EXPECT_EQ(Open().status().code(), StatusCode::kNotFound);
  Write("pytorch_model.bin", "x");
  EXPECT_THAT(Fault(), HasSubstr("pytorch_model.bin is not read"));
}

TEST_F(CheckpointTest, BrokenFileIsNamed) {
  Write("model.safetensors", Shard({{"a", 1}}).substr(0, 20));
  EXPECT_THAT(Fault(), AllOf(HasSubstr("/model.safetensors: "), HasSubstr("truncated")));
  EXPECT_EQ(Open().status().code(), StatusCode::kDataLoss);
  Write("model.safetensors", "");
  EXPECT_THAT(Fault(), HasSubstr("this file has 0"));
}

TEST_F(CheckpointTest, MissingShard) {
  Write("one.safetensors", Shard({{"a", 1}}));
  WriteIndex({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  EXPECT_THAT(Fault(), AllOf(HasSubstr("two.safetensors"), HasSubstr("index.json")));
  EXPECT_EQ(Open().status().code(), StatusCode::kNotFound);
}

TEST_F(CheckpointTest, ShardNamesDoNotClimb) {
  for (const char* name : {"../one.safetensors", "/etc/passwd", "", ".", "a/b"}) {
    WriteIndex({{"a", name}});
    EXPECT_THAT(Fault(), HasSubstr("not a file name")) << name;
  }
}

TEST_F(CheckpointTest, IndexDisagreesWithShards) {
  Write("one.safetensors", Shard({{"a", 1}}));
  Write("two.safetensors", Shard({{"b", 1}}));
  WriteIndex({{"a", "one.safetensors"}, {"b", "two.safetensors"}, {"c", "two.safetensors"}});
  EXPECT_THAT(Fault(), AllOf(HasSubstr("`c`"), HasSubstr("not in its shard two.safetensors")));
  WriteIndex({{"a", "two.safetensors"}, {"b", "one.safetensors"}});
  EXPECT_THAT(Fault(), HasSubstr("not in its shard"));
}

TEST_F(CheckpointTest, TensorInTwoShards) {
  Write("one.safetensors", Shard({{"a", 1}}));
  Write("two.safetensors", Shard({{"a", 1}, {"b", 2}}));
  WriteIndex({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  EXPECT_THAT(Fault(),
              AllOf(HasSubstr("`a`"), HasSubstr("one.safetensors"), HasSubstr("two.safetensors")));
}

TEST_F(CheckpointTest, BrokenIndex) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "invalid JSON"},
      {"[]", "`weight_map`"},
      {R"({"weight_map": {}})", "`weight_map`"},
      {R"({"weight_map": []})", "`weight_map`"},
      {R"({"weight_map": {"a": 5}})", "`a` must be a file name"},
  };
  for (const auto& [text, expected] : cases) {
    Write("model.safetensors.index.json", text);
    EXPECT_THAT(Fault(), AllOf(HasSubstr("index.json"), HasSubstr(expected))) << text;
  }
}

}  // namespace
}  // namespace erne
