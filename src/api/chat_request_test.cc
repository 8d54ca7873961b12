#include "api/chat_request.h"

#include <span>

#include <gtest/gtest.h>

#include "base/strings.h"

namespace erne {
namespace {

constexpr const char* kMessages = R"("messages":[{"role":"user","content":"hi"}])";

Result<ChatRequest> Parse(std::string_view body) {
  std::vector<std::string> unknown;
  return ParseChatRequest(body, unknown);
}
Result<ChatRequest> With(std::string_view members) {
  return Parse(StrCat("{", kMessages, ",", members, "}"));
}

TEST(ChatRequest, Defaults) {
  const Result<ChatRequest> request = Parse(StrCat("{", kMessages, "}"));
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->options.model, "");
  EXPECT_EQ(request->options.choices, 1);
  EXPECT_FALSE(request->options.temperature || request->options.top_p || request->options.top_k ||
               request->options.repetition_penalty);
  EXPECT_FALSE(request->options.seed || request->options.max_tokens);
  EXPECT_TRUE(request->conversation.add_generation_prompt && request->options.skip_special_tokens);
  EXPECT_FALSE(request->options.stream || request->options.include_usage ||
               request->options.ignore_eos || request->options.include_stop);
  EXPECT_TRUE(request->conversation.tools.is_null() && request->conversation.documents.is_null());
}

TEST(ChatRequest, EveryHonouredFieldArrives) {
  const Result<ChatRequest> request = With(
      R"("model":"m","request_id":"r-1","n":2,"temperature":0.5,"top_p":0.25,"top_k":40,"repetition_penalty":1.15,
         "seed":-1,"max_tokens":5,"stop":["a","b"],"stop_token_ids":[3,4.0],"include_stop_str_in_output":true,
         "min_p":0.125,"presence_penalty":-0.5,"frequency_penalty":2,"logit_bias":{"7":-100,"0":1.5},"min_tokens":3,
         "bad_words":["x"," y"],"allowed_token_ids":[9,8,9],"logprobs":true,"top_logprobs":20,
         "repetition_detection":{"max_pattern_size":20,"min_count":4},"add_special_tokens":true,
         "ignore_eos":true,"skip_special_tokens":false,"stream":true,
         "stream_options":{"include_usage":true,"continuous_usage_stats":true},
         "add_generation_prompt":false,"chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low",
         "tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none","documents":[{"text":"d"}],
         "response_format":{"type":"text"},"user":"u")");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->options.model, "m");
  EXPECT_EQ(request->options.request_id, "r-1");
  EXPECT_EQ(request->options.choices, 2);
  EXPECT_EQ(request->options.temperature, 0.5F);
  EXPECT_EQ(request->options.top_p, 0.25F);
  EXPECT_EQ(request->options.top_k, 40);
  EXPECT_EQ(request->options.repetition_penalty, 1.15F);
  EXPECT_EQ(request->options.seed, ~uint64_t{0});
  EXPECT_EQ(request->options.max_tokens, 5);
  EXPECT_EQ(request->options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request->options.stop_token_ids, (std::vector<int32_t>{3, 4}));
  EXPECT_TRUE(request->options.include_stop && request->options.ignore_eos &&
              request->options.stream);
  EXPECT_TRUE(request->options.include_usage && request->options.continuous_usage);
  EXPECT_FALSE(request->options.skip_special_tokens || request->conversation.add_generation_prompt);
  EXPECT_EQ(request->options.min_p, 0.125F);
  EXPECT_EQ(request->options.presence_penalty, -0.5F);
  EXPECT_EQ(request->options.frequency_penalty, 2);
  ASSERT_EQ(request->options.logit_bias.size(), 2u);
  EXPECT_EQ(request->options.logit_bias[0].token, 7);
  EXPECT_EQ(request->options.logit_bias[0].bias, -100);
  EXPECT_EQ(request->options.min_tokens, 3);
  EXPECT_EQ(request->options.bad_words, (std::vector<std::string>{"x", " y"}));
  EXPECT_EQ(request->options.allowed_token_ids, (std::vector<int32_t>{8, 9}));
  EXPECT_EQ(request->options.logprobs, 20);
  ASSERT_TRUE(request->options.repetition.has_value());
  EXPECT_EQ(request->options.repetition->max_period, 20);
  EXPECT_EQ(request->options.repetition->min_period, 1);
  EXPECT_EQ(request->options.repetition->min_count, 4);
  EXPECT_TRUE(request->conversation.add_special_tokens);
  EXPECT_EQ(request->conversation.template_variables.Dump(),
            R"({"enable_thinking":false,"reasoning_effort":"low"})");
  EXPECT_EQ(request->conversation.tools.Dump(), R"([{"type":"function","function":{"name":"f"}}])");
  EXPECT_EQ(request->conversation.documents.Dump(), R"([{"text":"d"}])");
}

TEST(ChatRequest, TheNewerLimitWins) {
  for (const char* members : {R"("max_tokens":5,"max_completion_tokens":9)",
                              R"("max_completion_tokens":9,"max_tokens":5)"}) {
    const Result<ChatRequest> request = With(members);
    ASSERT_TRUE(request.ok());
    EXPECT_EQ(request->options.max_tokens, 9);
    EXPECT_EQ(request->options.max_tokens_field, "max_completion_tokens");
  }
  EXPECT_EQ(With(R"("stop":"x")")->options.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(With(R"("top_k":99999999999)")->options.top_k, std::numeric_limits<int32_t>::max());
}

TEST(ChatRequest, UnknownFieldsAreReportedAndAccepted) {
  std::vector<std::string> unknown;
  EXPECT_TRUE(ParseChatRequest(StrCat("{", kMessages, R"(,"frobnicate":1,"user":"x","贪吃":null})"),
                               unknown)
                  .ok());
  EXPECT_EQ(unknown, (std::vector<std::string>{"frobnicate", "贪吃"}));
}

TEST(ChatRequest, BodiesThatAreNoRequest) {
  for (const char* body : {"", "{", "[]", "null", "3", "\"x\"", "{\"messages\":[{]}"}) {
    const Result<ChatRequest> request = Parse(body);
    ASSERT_FALSE(request.ok()) << body;
    EXPECT_EQ(request.status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_NE(Parse(R"({"model": "m", "messages" [})").status().message().find("byte 26"),
            std::string::npos);
  EXPECT_NE(Parse("{\"messages\": \"\xc3(\"}").status().message().find("byte 14"),
            std::string::npos);
  EXPECT_NE(Parse("[]").status().message().find("array"), std::string::npos);
}

struct Case {
  const char* members;
  const char* param;
  const char* says;
};

void ExpectFaults(std::span<const Case> cases) {
  for (const Case& one : cases) {
    const Result<ChatRequest> request = With(one.members);
    ASSERT_FALSE(request.ok()) << one.members;
    EXPECT_EQ(request.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(request.status().param(), one.param) << request.status().message();
    EXPECT_NE(request.status().message().find(one.says), std::string::npos)
        << request.status().message();
  }
}

TEST(ChatRequest, FaultsNameTheFieldAndWhatWasFound) {
  const Case cases[] = {
      {R"("model":5)", "model", "integer"},
      {R"("temperature":-0.5)", "temperature", "at least 0 and at most 1000000, not -0.5"},
      {R"("temperature":"hot")", "temperature", "string"},
      {R"("temperature":true)", "temperature", "boolean"},
      {R"("top_p":0)", "top_p", "greater than 0 and at most 1, not 0"},
      {R"("top_p":1.5)", "top_p", "1.5"},
      {R"("top_k":-7)", "top_k", "-7"},
      {R"("top_k":1.5)", "top_k", "1.5"},
      {R"("repetition_penalty":0)", "repetition_penalty", "greater than 0"},
      {R"("seed":"x")", "seed", "string"},
      {R"("seed":99999999999999999999)", "seed", "integer"},
      {R"("max_tokens":0)", "max_tokens", "at least 1, not 0"},
      {R"("max_tokens":-1)", "max_tokens", "-1"},
      {R"("max_tokens":"many")", "max_tokens", "string"},
      {R"("max_completion_tokens":0)", "max_completion_tokens", "at least 1"},
      {R"("n":0)", "n", "at least 1"},
      {R"("n":65)", "n", "at most 64"},
      {R"("stop":[1])", "stop", "integer"},
      {R"("stop":{"a":1})", "stop", "object"},
      {R"("stop":"")", "stop", "empty"},
      {R"("stop_token_ids":[-1])", "stop_token_ids", "-1"},
      {R"("stop_token_ids":["x"])", "stop_token_ids", "\"x\""},
      {R"("stream":1)", "stream", "true or false"},
      {R"("stream_options":{"include_usage":true})", "stream_options", "`stream`"},
      {R"("stream":true,"stream_options":{"include_usage":"yes"})", "stream_options.include_usage",
       "string"},
      {R"("tools":[{"type":"function"}])", "tools[0].function", "object"},
      {R"("tools":[{"type":"function","function":{"name":1}}])", "tools[0].function.name",
       "string"},
      {R"("tools":[1],"tool_choice":"none")", "tools[0]", "object"},
      {R"("tool_choice":"required")", "tool_choice", "needs `tools`"},
      {R"("tool_choice":"any")", "tool_choice", "\"any\""},
      {R"("tool_choice":{"type":"function"})", "tool_choice", "function"},
      {R"("tool_choice":{"type":"function","function":5})", "tool_choice", "5"},
      {R"("tool_choice":{"type":"function","function":{"name":5}})", "tool_choice", "5"},
      {R"("tools":[{"type":"function","function":{"name":"f"}}],
          "tool_choice":{"type":"function","function":{"name":"g"}})",
       "tool_choice", "no tool is called \"g\""},
      {R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required",
          "response_format":{"type":"json_object"})",
       "tool_choice", "`response_format`"},
      {R"("response_format":{})", "response_format.type", "\"json_schema\""},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema.schema",
       "is missing"},
      {R"("structured_outputs":{})", "structured_outputs", "one of json"},
      {R"("structured_outputs":{"structural_tag":{}})", "structured_outputs.structural_tag",
       "not supported"},
      {R"("structured_outputs":{"regex":1})", "structured_outputs.regex", "a string"},
      {R"("guided_json":"{")", "guided_json", "is no JSON"},
      {R"("guided_json":{},"guided_regex":"a")", "guided_regex", "`guided_json`"},
      {R"("response_format":{"type":"json_object"},"structured_outputs":{"choice":["a"]})",
       "structured_outputs.choice", "`response_format`"},
      {R"("logprobs":1)", "logprobs", "true or false"},
      {R"("top_logprobs":3)", "top_logprobs", "needs `logprobs`"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs", "at most 20, not 21"},
      {R"("logit_bias":{"5":101})", "logit_bias", "from -100 to 100, not 101 for token 5"},
      {R"("logit_bias":{"5":"1"})", "logit_bias", "\"1\""},
      {R"("logit_bias":{"-5":1})", "logit_bias", "\"-5\""},
      {R"("logit_bias":{"five":1})", "logit_bias", "\"five\""},
      {R"("logit_bias":{"5":1,"05":1})", "logit_bias", "token 5 twice"},
      {R"("logit_bias":[5])", "logit_bias", "array"},
      {R"("presence_penalty":2.5)", "presence_penalty", "at least -2 and at most 2"},
      {R"("frequency_penalty":3)", "frequency_penalty", "at most 2"},
      {R"("min_p":1.1)", "min_p", "at most 1"},
      {R"("min_tokens":-1)", "min_tokens", "at least 0"},
      {R"("bad_words":"x")", "bad_words", "array"},
      {R"("bad_words":[1])", "bad_words", "strings only"},
      {R"("bad_words":[""])", "bad_words", "empty"},
      {R"("allowed_token_ids":[])", "allowed_token_ids", "empty"},
      {R"("allowed_token_ids":[-1])", "allowed_token_ids", "-1"},
      {R"("repetition_detection":{"max_pattern_size":4})", "repetition_detection", "min_count"},
      {R"("repetition_detection":{"max_pattern_size":1025,"min_count":2})",
       "repetition_detection.max_pattern_size", "at most 1024, not 1025"},
      {R"("repetition_detection":{"max_pattern_size":4,"min_pattern_size":5,"min_count":2})",
       "repetition_detection", "min_pattern_size"},
      {R"("repetition_detection":{"max_pattern_size":"x"})",
       "repetition_detection.max_pattern_size", "an integer, not string"},
      {R"("repetition_detection":{"pattern":4})", "repetition_detection", "\"pattern\""},
      {R"("use_beam_search":true)", "use_beam_search", "There is no beam search"},
      {R"("n":3,"best_of":2)", "best_of", "at least `n` (3), not 2"},
      {R"("best_of":2,"stream":true)", "best_of", "stream"},
      {R"("truncate_prompt_tokens":0)", "truncate_prompt_tokens", "-1 or at least 1, not 0"},
      {R"("truncate_prompt_tokens":-2)", "truncate_prompt_tokens", "at least -1"},
      {R"("truncation_side":"middle")", "truncation_side", "\"middle\""},
      {R"("logprob_token_ids":[5])", "logprob_token_ids", "needs `logprobs`"},
      {R"("logprobs":true,"logprob_token_ids":[-5])", "logprob_token_ids", "-5"},
      {R"("stream_interval":0)", "stream_interval", "at least 1"},
      {R"("continue_final_message":true,"add_generation_prompt":true)", "continue_final_message",
       "add_generation_prompt"},
      {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs", "messages"},
      {R"("request_id":"a\nb")", "request_id", "letters"},
  };
  ExpectFaults(cases);
  EXPECT_EQ(Parse("{}").status().param(), "messages");
  EXPECT_EQ(Parse(R"({"messages":"hi"})").status().param(), "messages");
  EXPECT_EQ(Parse(R"({"messages":null})").status().param(), "messages");
}

TEST(ChatRequest, TheFormOfTheAnswer) {
  using Kind = grammar::Form::Kind;
  const auto form = [](const std::string& fields) { return With(fields).value().options.form; };
  const std::string schema = R"({"type":"object"})";
  for (const auto& [fields, kind, text] :
       {std::tuple<std::string, Kind, std::string>{R"("response_format":{"type":"json_object"})",
                                                   Kind::kJsonObject, ""},
        {R"("response_format":{"type":"json_schema","json_schema":{"schema":)" + schema + "}}",
         Kind::kJsonSchema, schema},
        {R"("structured_outputs":{"json":"{\"type\": \"object\"}"})", Kind::kJsonSchema, schema},
        {R"("structured_outputs":{"regex":"a+"})", Kind::kRegex, "a+"},
        {R"("structured_outputs":{"json_object":true})", Kind::kJsonObject, ""},
        {R"("guided_choice":["a","b"])", Kind::kChoice, R"(["a","b"])"},
        {R"("guided_grammar":"root ::= \"a\"")", Kind::kEbnf, "root ::= \"a\""}}) {
    const std::optional<AnswerForm> read = form(fields);
    ASSERT_TRUE(read.has_value()) << fields;
    EXPECT_EQ(read->form.kind, kind) << fields;
    EXPECT_EQ(read->form.text, text) << fields;
  }
  EXPECT_FALSE(form(R"("response_format":{"type":"text"})").has_value());
  EXPECT_FALSE(form(R"("guided_json":null)").has_value());
}

TEST(ChatRequest, WhatAsksForNothingIsAccepted) {
  const Result<ChatRequest> request = With(
      R"("tools":[],"tool_choice":"auto","logprobs":false,"top_logprobs":0,"logit_bias":{},"presence_penalty":0,
         "frequency_penalty":0.0,"min_p":0,"min_tokens":0,"echo":false,"functions":[],"modalities":["text"],
         "guided_json":null,"structured_outputs":null,"prompt_logprobs":null,"best_of":1,"length_penalty":1.0)");
  EXPECT_TRUE(request.ok()) << request.status().message();
}

TEST(ChatRequest, WhatIsToldBesideTheText) {
  const Result<ChatRequest> request =
      With(R"("return_token_ids":true,"return_tokens_as_token_ids":true,"return_prompt_text":true,
              "show_expert_trace":true,"stream_interval":4,"logprobs":true,
              "logprob_token_ids":[7,5],"n":2,"best_of":5,"echo":true)");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_TRUE(request->options.return_token_ids && request->options.return_tokens_as_token_ids &&
              request->options.return_prompt_text && request->options.show_expert_trace);
  EXPECT_EQ(request->options.stream_interval, 4);
  EXPECT_EQ(request->options.logprob_token_ids, (std::vector<int32_t>{7, 5}));
  EXPECT_EQ(request->options.best_of, 5);
  EXPECT_TRUE(request->echo);
  EXPECT_EQ(With(R"("n":3)")->options.best_of, 3);
}

TEST(ChatRequest, AMessageToGoOnWith) {
  const Result<ChatRequest> request = With(R"("continue_final_message":true)");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_TRUE(request->conversation.continue_final_message);
  EXPECT_FALSE(request->conversation.add_generation_prompt);
  const Result<ChatRequest> empty =
      Parse(R"({"messages":[{"role":"assistant","content":" "}],"continue_final_message":true})");
  EXPECT_EQ(empty.status().param(), "continue_final_message");
}

TEST(ChatRequest, LogprobsAreAskedForInTwoFields) {
  EXPECT_EQ(With(R"("logprobs":true)")->options.logprobs, 0);
  EXPECT_EQ(With(R"("logprobs":false,"top_logprobs":0)")->options.logprobs, -1);
}

TEST(ChatRequest, PlaceAndTime) {
  const Result<ChatRequest> plain = With(R"("n":1)");
  EXPECT_EQ(plain->options.priority, 0);
  EXPECT_EQ(plain->options.timeout_ms, 0);
  EXPECT_EQ(plain->options.prompt_logprobs, -1);
  const Result<ChatRequest> request =
      With(R"("priority":-3,"cache_salt":"tenant-7","timeout":1.5,"prompt_logprobs":0)");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->options.priority, -3);
  EXPECT_EQ(request->options.cache_salt, "tenant-7");
  EXPECT_EQ(request->options.timeout_ms, 1500);
  EXPECT_EQ(request->options.prompt_logprobs, 0);
  EXPECT_EQ(With(R"("timeout":1e-9)")->options.timeout_ms, 1) << "short, and not none";
  EXPECT_TRUE(With(StrCat(R"("cache_salt":")", std::string(256, 'x'), '"')).ok());
  EXPECT_EQ(With(StrCat(R"("cache_salt":")", std::string(257, 'x'), '"')).status().param(),
            "cache_salt");
}

TEST(ChatRequest, FaultsOfPlaceAndTime) {
  const Case cases[] = {
      {R"("priority":1.5)", "priority", "an integer, not 1.5"},
      {R"("priority":"high")", "priority", "string"},
      {R"("cache_salt":"")", "cache_salt", "1 to 256 bytes, not 0"},
      {R"("cache_salt":5)", "cache_salt", "integer"},
      {R"("timeout":0)", "timeout", "greater than 0 and at most 86400, not 0"},
      {R"("timeout":"1s")", "timeout", "string"},
      {R"("prompt_logprobs":-1)", "prompt_logprobs", "at least 0"},
      {R"("prompt_logprobs":true)", "prompt_logprobs", "boolean"},
      {R"("prompt_logprobs":1,"stream":true)", "prompt_logprobs", "stream"},
  };
  ExpectFaults(cases);
}

TEST(ChatRequest, LoopsMayBeLeftToRun) {
  const Result<ChatRequest> request = With(R"("repetition_detection":{"max_pattern_size":0})");
  ASSERT_TRUE(request.ok()) << request.status().message();
  ASSERT_TRUE(request->options.repetition.has_value());
  EXPECT_FALSE(request->options.repetition->enabled());
}

TEST(ChatRequest, StopsAreBounded) {
  std::string many = R"("stop":["x")";
  for (int i = 0; i < 64; ++i) many += ",\"x\"";
  EXPECT_EQ(With(many + "]").status().param(), "stop");
  EXPECT_EQ(With(StrCat(R"("stop":")", std::string(20'000, 'x'), "\"")).status().param(), "stop");
  std::string biases = R"("logit_bias":{"0":1)";
  for (int i = 1; i <= 4096; ++i) biases += StrCat(",\"", i, "\":1");
  EXPECT_EQ(With(biases + "}").status().param(), "logit_bias");
}

}  // namespace
}  // namespace erne
