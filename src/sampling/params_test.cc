#include "sampling/params.h"

#include <limits>

#include <gtest/gtest.h>

namespace erne {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Status Validate(const SamplingParams& params) { return ValidateSampling(params, 100); }

TEST(ValidateSampling, NamesTheField) {
  EXPECT_TRUE(Validate({}).ok());
  EXPECT_TRUE(
      Validate({.temperature = 0, .top_p = 1e-6F, .top_k = -1, .repetition_penalty = 0.1F}).ok());
  for (const float bad : {-0.1F, kInfinity, kNan}) {
    EXPECT_EQ(Validate({.temperature = bad}).param(), "temperature");
    EXPECT_EQ(Validate({.top_p = bad}).param(), "top_p");
    EXPECT_EQ(Validate({.repetition_penalty = bad}).param(), "repetition_penalty");
  }
  EXPECT_EQ(Validate({.top_p = 0}).param(), "top_p");
  EXPECT_EQ(Validate({.top_p = 1.01F}).param(), "top_p");
  EXPECT_EQ(Validate({.top_k = -2}).param(), "top_k");
  EXPECT_EQ(Validate({.repetition_penalty = 0}).param(), "repetition_penalty");
  for (const float bad : {-2.1F, 2.1F, kNan}) {
    EXPECT_EQ(Validate({.min_p = bad}).param(), "min_p");
    EXPECT_EQ(Validate({.presence_penalty = bad}).param(), "presence_penalty");
    EXPECT_EQ(Validate({.frequency_penalty = bad}).param(), "frequency_penalty");
  }
  EXPECT_EQ(Validate({.logprobs = -2}).param(), "logprobs");
  EXPECT_EQ(Validate({.logprobs = 101}).param(), "logprobs");
  EXPECT_TRUE(Validate({.logprobs = 100}).ok());
}

TEST(ValidateSampling, ChecksTokenLists) {
  EXPECT_TRUE(Validate({.logit_bias = {{0, 5.0F}, {99, -100.0F}}}).ok());
  EXPECT_EQ(Validate({.logit_bias = {{100, 5.0F}}}).param(), "logit_bias");
  EXPECT_EQ(Validate({.logit_bias = {{-1, 5.0F}}}).param(), "logit_bias");
  EXPECT_EQ(Validate({.logit_bias = {{1, kInfinity}}}).param(), "logit_bias");
  EXPECT_EQ(Validate({.logit_bias = {{1, 1.0F}, {1, 2.0F}}}).param(), "logit_bias");
  EXPECT_TRUE(Validate({.bad_words = {{0}, {1, 99}}}).ok());
  EXPECT_EQ(Validate({.bad_words = {{}}}).param(), "bad_words");
  EXPECT_EQ(Validate({.bad_words = {{1, 100}}}).param(), "bad_words");
  EXPECT_TRUE(Validate({.allowed_tokens = {0, 99, 0}}).ok());
  EXPECT_EQ(Validate({.allowed_tokens = {5, 100}}).param(), "allowed_token_ids");
  EXPECT_EQ(Validate({.allowed_tokens = {-1}}).param(), "allowed_token_ids");
}

}  // namespace
}  // namespace erne
