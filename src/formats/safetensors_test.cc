#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/safetensors_builder.h"

namespace erne {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<std::map<std::string, TensorView>> Parse(std::string_view file) {
  return ParseSafetensors(AsBytes(file));
}

// The message of a parse that must fail.
std::string Fault(std::string_view header, std::string_view data = "") {
  const auto result = Parse(SafetensorsFile(header, data));
  return result.ok() ? "no fault" : result.status().message();
}

std::string GoodFile() {
  SafetensorsBuilder builder;
  builder.Add<float>("a.weight", DType::kF32, {2, 2}, {1, 2, 3, 4});
  builder.Add<uint16_t>("b.weight", DType::kBF16, {3}, {0x3F80, 0x4000, 0x4040});
  builder.Add<uint8_t>("c", DType::kU8, {1}, {7});
  builder.Add<float>("scalar", DType::kF32, {}, {5});  // unaligned: follows an odd byte
  builder.Add<float>("empty", DType::kF32, {0, 7}, std::vector<float>{});
  return builder.Build();
}

TEST(Safetensors, Good) {
  const std::string file = GoodFile();
  const auto tensors = Parse(file);
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  ASSERT_EQ(tensors->size(), 5U);  // __metadata__ is no tensor
  const TensorView& a = tensors->at("a.weight");
  EXPECT_EQ(a.dtype, DType::kF32);
  EXPECT_THAT(a.shape, ElementsAre(2, 2));
  EXPECT_THAT(ToFloats(a), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(ToFloats(tensors->at("b.weight")), ElementsAre(1, 2, 3));
  EXPECT_THAT(ToFloats(tensors->at("scalar")), ElementsAre(5));
  EXPECT_EQ(tensors->at("empty").elements(), 0);
  // Views, not copies.
  const auto* begin = reinterpret_cast<const std::byte*>(file.data());
  EXPECT_TRUE(a.data >= begin && a.data + a.bytes() <= begin + file.size());
}

TEST(Safetensors, PaddedAndEmptyHeaders) {
  EXPECT_TRUE(Parse(SafetensorsFile("{}      ", "")).ok());
  const auto tensors =
      Parse(SafetensorsFile(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   )", "ab"));
  EXPECT_TRUE(tensors.ok());
}

TEST(Safetensors, OrderOfEntriesIsFree) {
  const std::string file = SafetensorsFile(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},
      "a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                           "xy");
  const auto tensors = Parse(file);
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  EXPECT_EQ(static_cast<char>(*tensors->at("b").data), 'y');
}

TEST(Safetensors, TruncatedAnywhere) {
  const std::string file = GoodFile();
  for (size_t size = 0; size < file.size(); ++size) {
    // A copy of its own, so that a sanitizer sees a read past the end.
    const std::vector<char> part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    const auto result = Parse(std::string_view(part.data(), part.size()));
    ASSERT_FALSE(result.ok()) << size;
    EXPECT_EQ(result.status().code(), StatusCode::kDataLoss)
        << size << ": " << result.status().message();
  }
}

TEST(Safetensors, EveryHeaderByteBroken) {
  const std::string good = GoodFile();
  const size_t header_end = good.rfind('}') + 1;
  for (size_t at = 0; at < header_end; ++at) {
    for (const char c : {'\0', '"', '9', '-', '}', '\xFF'}) {
      std::string file = good;
      file[at] = c;
      const auto result = Parse(file);  // may be good (a name changed), must not crash
      EXPECT_TRUE(result.ok() || !result.status().message().empty());
    }
  }
}

TEST(Safetensors, HeaderLength) {
  EXPECT_THAT(Parse(SafetensorsFile("{}", "", 3)).status().message(), HasSubstr("truncated"));
  EXPECT_EQ(Parse(SafetensorsFile("{}", "", 3)).status().code(), StatusCode::kDataLoss);
  for (const uint64_t size :
       {kMaxSafetensorsHeader + 1, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    EXPECT_THAT(Parse(SafetensorsFile("{}", "", size)).status().message(), HasSubstr("limit"))
        << size;
  }
  EXPECT_THAT(Parse(SafetensorsFile("{}", "", kMaxSafetensorsHeader)).status().message(),
              HasSubstr("truncated"));
  EXPECT_THAT(Parse(SafetensorsFile("{}", "", 0)).status().message(), HasSubstr("JSON"));
}

TEST(Safetensors, HeaderIsNoObject) {
  EXPECT_THAT(Fault("[]"), HasSubstr("must be an object, not array"));
  EXPECT_THAT(Fault("{\"x\":"), HasSubstr("invalid JSON at byte"));
  EXPECT_THAT(Fault(R"({"x":5})"), AllOf(HasSubstr("`x`"), HasSubstr("integer")));
}

TEST(Safetensors, Fields) {
  EXPECT_THAT(Fault(R"({"x":{"shape":[1],"data_offsets":[0,1]}})", "a"), HasSubstr("`dtype`"));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U9","shape":[1],"data_offsets":[0,1]}})", "a"),
              AllOf(HasSubstr("`x`"), HasSubstr("`U9`")));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","data_offsets":[0,1]}})", "a"), HasSubstr("`shape`"));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "a"),
              HasSubstr("`shape`"));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", "a"),
              HasSubstr("`shape`"));
  EXPECT_THAT(
      Fault(R"({"x":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]}})", "a"),
      HasSubstr("`shape`"));
  EXPECT_THAT(
      Fault(R"({"x":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", "a"),
      HasSubstr("more than 8"));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[1]}})", "a"), HasSubstr("`data_offsets`"));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", "a"),
              HasSubstr("two numbers"));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,-1]}})", "a"),
              HasSubstr("`data_offsets`"));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", "a"),
              HasSubstr("backwards"));
  EXPECT_THAT(Fault(StrCat("{\"", std::string(600, 'n'),
                           R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})"),
                    "a"),
              HasSubstr("600 bytes"));
}

TEST(Safetensors, Sizes) {
  EXPECT_THAT(
      Fault(R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})", std::string(20, 'a')),
      AllOf(HasSubstr("[2, 3]"), HasSubstr("24"), HasSubstr("20")));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})", "abcd"),
              AllOf(HasSubstr("ends at byte 5"), HasSubstr("holds 4")));
  for (const char* shape :
       {"[4294967296,4294967296]", "[9223372036854775807,2]", "[3037000500,3037000500]",
        "[0,4294967296,4294967296]", "[4294967296,0,4294967296]"}) {
    EXPECT_THAT(
        Fault(StrCat(R"({"x":{"dtype":"F32","shape":)", shape, R"(,"data_offsets":[0,0]}})")),
        HasSubstr("overflows"))
        << shape;
  }
  EXPECT_THAT(
      Fault(
          R"({"x":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]}})"),
      HasSubstr("truncated"));
}

TEST(Safetensors, OverlapsAndHoles) {
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
                        "y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                    "abc"),
              AllOf(HasSubstr("`y`"), HasSubstr("inside another")));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
                        "y":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                    "ab"),
              HasSubstr("inside another"));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                        "y":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                    "abc"),
              AllOf(HasSubstr("`y`"), HasSubstr("ends at 1")));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "ab"),
              HasSubstr("`x`"));
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "abc"),
              HasSubstr("holds 3"));
  EXPECT_THAT(Fault("{}", "a"), HasSubstr("holds 1"));
}

// The later of two equal names counts in our JSON; the bytes of the earlier one are then in
// nobody's hands.
TEST(Safetensors, DuplicateNames) {
  EXPECT_THAT(Fault(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                        "x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                    "ab"),
              HasSubstr("`x`"));
}

}  // namespace
}  // namespace erne
