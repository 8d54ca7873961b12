#include "api/served_model.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "api/test_model.h"
#include "base/strings.h"
#include "text/test_support.h"

namespace erne {
namespace {

using Names = std::vector<std::string>;

TEST(ServedNames, FolderPathAndLowerCase) {
  EXPECT_EQ(ServedNames("/m/ERNIE-4.5-0.3B-PT", {}),
            (Names{"ERNIE-4.5-0.3B-PT", "/m/ERNIE-4.5-0.3B-PT", "ernie-4.5-0.3b-pt",
                   "/m/ernie-4.5-0.3b-pt"}));
  EXPECT_EQ(ServedNames("models/erne-mini/", {}), (Names{"erne-mini", "models/erne-mini/"}));
  EXPECT_EQ(ServedNames("erne-mini", {}), (Names{"erne-mini"}));
  EXPECT_EQ(ServedNames("embedded:erne-mini", {}).front(), "erne-mini");
  EXPECT_EQ(ServedNames(".", {}).front(), std::filesystem::current_path().filename().string());
  EXPECT_EQ(ServedNames("/x/m", {"Ernie", "文心", "Ernie"}), (Names{"Ernie", "文心", "ernie"}));
}

TEST(ServedNames, AreUtf8) {
  EXPECT_EQ(ServedNames("/m/a\xFF", {}), (Names{"a\xEF\xBF\xBD", "/m/a\xEF\xBF\xBD"}));
  EXPECT_EQ(ServedNames("/x/m", {"\xE4\xBD"}), Names{"\xEF\xBF\xBD"});
}

TEST(ServedNames, CachesOfTheHubs) {
  EXPECT_EQ(ServedNames("/c/models--baidu--ERNIE-4.5-0.3B-PT/snapshots/0123abcd", {}).front(),
            "ERNIE-4.5-0.3B-PT");
  EXPECT_EQ(ServedNames("/c/PaddlePaddle/ERNIE-4___5-0___3B-PT", {}).front(), "ERNIE-4.5-0.3B-PT");
}

TEST(ServedNames, Finding) {
  const Names names = ServedNames("/data/baidu/ERNIE-4.5-0.3B-PT", {});
  for (const char* asked :
       {"ERNIE-4.5-0.3B-PT", "ernie-4.5-0.3b-pt", "Ernie-4.5-0.3b-PT",
        "/data/baidu/ERNIE-4.5-0.3B-PT", "baidu/ERNIE-4.5-0.3B-PT", "baidu/ernie-4.5-0.3b-pt"}) {
    EXPECT_TRUE(FindsModel(names, asked)) << asked;
  }
  for (const char* asked : {"", "/", "PT", "gpt-9", "ERNIE-4.5-0.3B-PT/", "u/ERNIE-4.5-0.3B-PT"}) {
    EXPECT_FALSE(FindsModel(names, asked)) << asked;
  }
  EXPECT_EQ(DistinctNames(ServedNames("/x/m", {"Ernie", "文心"})), (Names{"Ernie", "文心"}));
}

Result<GenerationDefaults> Defaults(const std::string& text) {
  const TestFiles files({{"generation_config.json", text}});
  ModelSpec spec;
  spec.vocab_size = 100;
  spec.eos_tokens = {2};
  return LoadGenerationDefaults(files, spec);
}

TEST(GenerationDefaults, FieldsAndEndTokens) {
  const auto defaults = Defaults(
      R"({"temperature":0.7,"top_p":0.9,"top_k":50,"repetition_penalty":1.05,"eos_token_id":[3,2,5],"do_sample":false})");
  ASSERT_TRUE(defaults.ok()) << defaults.status().message();
  EXPECT_EQ(defaults->temperature, 0.7F);
  EXPECT_EQ(defaults->top_p, 0.9F);
  EXPECT_EQ(defaults->top_k, 50);
  EXPECT_EQ(defaults->repetition_penalty, 1.05F);
  EXPECT_EQ(Defaults(R"({"min_p":0.1})")->min_p, 0.1F);
  EXPECT_EQ(Defaults(R"({"max_new_tokens":512})")->max_tokens, 512);
  EXPECT_EQ(defaults->eos_tokens, (std::vector<int32_t>{2, 3, 5})) << "config.json's comes first";
  EXPECT_EQ(Defaults(R"({"eos_token_id":7})")->eos_tokens, (std::vector<int32_t>{2, 7}));
}

TEST(GenerationDefaults, EmptyAndAbsent) {
  for (const char* text : {"", " \n", "{}", R"({"temperature":null})"}) {
    const auto defaults = Defaults(text);
    ASSERT_TRUE(defaults.ok()) << text;
    EXPECT_FALSE(defaults->temperature);
    EXPECT_EQ(defaults->eos_tokens, std::vector<int32_t>{2});
  }
  ModelSpec spec;
  EXPECT_TRUE(LoadGenerationDefaults(TestFiles({}), spec)->eos_tokens.empty());
}

TEST(GenerationDefaults, FaultsNameFileAndField) {
  for (const char* text :
       {R"({"temperature":"x"})", R"({"temperature":-1})", R"({"temperature")"}) {
    const auto defaults = Defaults(text);
    ASSERT_FALSE(defaults.ok()) << text;
    EXPECT_NE(defaults.status().message().find("memory/generation_config.json: "),
              std::string::npos);
  }
  EXPECT_NE(Defaults(R"({"top_p":0})").status().message().find("top_p"), std::string::npos);
  EXPECT_NE(Defaults(R"({"top_k":1.5})").status().message().find("top_k"), std::string::npos);
  for (const char* eos : {"[\"x\"]", "100", "[3,100]", "-1", "1099511627776"}) {
    const auto wrong = Defaults(StrCat(R"({"eos_token_id":)", eos, "}"));
    ASSERT_FALSE(wrong.ok()) << eos;
    EXPECT_NE(wrong.status().message().find("`eos_token_id` must hold token ids below 100"),
              std::string::npos);
  }
  EXPECT_NE(Defaults("[]").status().message().find("array"), std::string::npos);
}

std::vector<int32_t> Prefix(const char* config, const char* tokenizer_json = nullptr) {
  std::map<std::string, std::string, std::less<>> texts = {{"tokenizer_config.json", config}};
  if (tokenizer_json != nullptr) texts["tokenizer.json"] = tokenizer_json;
  const TestTokenizer tokenizer;
  const auto prefix = LoadPromptPrefix(TestFiles(std::move(texts)), tokenizer);
  EXPECT_TRUE(prefix.ok()) << prefix.status().message();
  return prefix.value();
}

TEST(PromptPrefix, IsWhatTheTokenizersFilesSay) {
  using Ids = std::vector<int32_t>;
  constexpr int32_t kBos = TestTokenizer::kBegin;
  EXPECT_EQ(Prefix("{}"), Ids{});
  EXPECT_EQ(Prefix(R"({"bos_token":"<|begin_of_sentence|>"})"), Ids{});
  EXPECT_EQ(Prefix(R"({"add_bos_token":true,"bos_token":"<|begin_of_sentence|>"})"), Ids{kBos});
  EXPECT_EQ(Prefix(R"({"add_bos_token":true,"bos_token":{"content":"<|begin_of_sentence|>"}})"),
            Ids{kBos});
  EXPECT_EQ(
      Prefix(R"({"tokenizer_class":"LlamaTokenizerFast","bos_token":"<|begin_of_sentence|>"})"),
      Ids{kBos});
  constexpr const char* kPost =
      R"({"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing",
          "single":[{"SpecialToken":{"id":"<b>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
                    {"SpecialToken":{"id":"<e>","type_id":0}}],
          "special_tokens":{"<b>":{"id":"<b>","ids":[258],"tokens":["<b>"]},
                            "<e>":{"id":"<e>","ids":[256],"tokens":["<e>"]}}}]}})";
  EXPECT_EQ(Prefix("{}", kPost), Ids{kBos});
  EXPECT_EQ(Prefix(R"({"add_bos_token":false})", kPost), Ids{});
  EXPECT_EQ(Prefix("{}", R"({"post_processor":null})"), Ids{});
  const TestFiles files(std::map<std::string, std::string, std::less<>>{
      {"tokenizer.json", R"({"post_processor":{"single":[{"SpecialToken":{"id":"x"}}],
                             "special_tokens":{"x":{"ids":[99999]}}}})"}});
  const TestTokenizer tokenizer;
  const auto wrong = LoadPromptPrefix(files, tokenizer);
  EXPECT_NE(wrong.status().message().find("99999"), std::string::npos);
}

std::string Rendered(const LoadedTemplate& loaded, const char* messages) {
  Json trusted = loaded.variables;
  trusted.Set("add_generation_prompt", true);
  const auto pieces = loaded.chat_template->Render(
      trusted, Json::Of({{"messages", Json::Parse(messages).value()}}));
  if (!pieces.ok()) return pieces.status().message();
  std::string text;
  for (const TextPiece& piece : *pieces) text += piece.text;
  return text;
}

constexpr const char* kTurns =
    R"([{"role":"system","content":"S"},{"role":"user","content":"U"},{"role":"assistant","content":"A"},{"role":"user","content":"V"}])";

Result<LoadedTemplate> LoadTemplate(std::map<std::string, std::string, std::less<>> files,
                                    const std::string& architecture = "qwen2") {
  ModelSpec spec;
  spec.architecture = architecture;
  return LoadChatTemplate(TestFiles(std::move(files)), spec);
}

TEST(LoadChatTemplate, FirstTheFileThenTheConfigurations) {
  EXPECT_EQ(Rendered(*LoadTemplate({{"chat_template.jinja", "one"},
                                    {"tokenizer_config.json", R"({"chat_template":"two"})"}}),
                     kTurns),
            "one");
  EXPECT_EQ(Rendered(*LoadTemplate({{"tokenizer_config.json", R"({"chat_template":"two"})"},
                                    {"chat_template.json", R"({"chat_template":"three"})"}}),
                     kTurns),
            "two");
  EXPECT_EQ(Rendered(*LoadTemplate({{"tokenizer_config.json", "{}"},
                                    {"chat_template.json", R"({"chat_template":"three"})"}}),
                     kTurns),
            "three");
  EXPECT_EQ(
      Rendered(
          *LoadTemplate(
              {{"tokenizer_config.json",
                R"({"chat_template":[{"name":"tool_use","template":"t"},{"name":"default","template":"d"}]})"}}),
          kTurns),
      "d");
}

TEST(LoadChatTemplate, SpecialTokensAreVariables) {
  const auto loaded = LoadTemplate(
      {{"tokenizer_config.json",
        R"({"bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false},"pad_token":null,
                                         "chat_template":"{{ bos_token }}{{ eos_token }}{{ cls_token }}"})"},
       {"special_tokens_map.json", R"({"cls_token":"<cls>","bos_token":"<other>"})"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(Rendered(*loaded, kTurns), "<s></s><cls>");
}

TEST(LoadChatTemplate, ErnieHasAFormOfItsOwn) {
  for (const char* architecture : {"ernie4_5", "ernie4_5_moe"}) {
    const auto loaded = LoadTemplate({}, architecture);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_EQ(
        Rendered(*loaded, kTurns),
        "<|begin_of_sentence|>S\nUser: U\nAssistant: A<|end_of_sentence|>User: V\nAssistant: ");
    EXPECT_NE(Rendered(*loaded, R"([{"role":"tool","content":"x"}])").find("tool"),
              std::string::npos);
  }
  const auto named = LoadTemplate(
      {{"tokenizer_config.json", R"({"cls_token":"<c>","sep_token":"<e>"})"}}, "ernie4_5");
  EXPECT_EQ(Rendered(*named, kTurns), "<c>S\nUser: U\nAssistant: A<e>User: V\nAssistant: ");
}

TEST(LoadChatTemplate, FaultsNameThePlace) {
  const auto says = [](const Result<LoadedTemplate>& loaded) {
    EXPECT_FALSE(loaded.ok());
    return loaded.status().message();
  };
  const std::string none = says(LoadTemplate({}));
  EXPECT_NE(none.find("chat_template.jinja"), std::string::npos) << none;
  EXPECT_NE(none.find("tokenizer_config.json"), std::string::npos) << none;
  EXPECT_NE(says(LoadTemplate({{"chat_template.jinja", "{% if %}"}}))
                .find("memory/chat_template.jinja: "),
            std::string::npos);
  for (const char* silent : {"", "{# nothing #}", "{% if tools %}x{% endif %}"}) {
    EXPECT_NE(says(LoadTemplate({{"chat_template.jinja", silent}})).find("renders no text"),
              std::string::npos)
        << "every request would fail";
  }
  EXPECT_NE(says(LoadTemplate({{"chat_template.jinja", "{{ raise_exception('no way') }}"}}))
                .find("no way"),
            std::string::npos);
  EXPECT_NE(
      says(LoadTemplate({{"tokenizer_config.json", R"({"chat_template":5})"}})).find("integer"),
      std::string::npos);
  EXPECT_NE(
      says(
          LoadTemplate(
              {{"tokenizer_config.json",
                R"({"chat_template":[{"name":"a","template":"x"},{"name":"b","template":"x"}]})"}}))
          .find("a, b"),
      std::string::npos);
  EXPECT_NE(says(LoadTemplate({{"tokenizer_config.json", "{"}})).find("tokenizer_config.json"),
            std::string::npos);
}

TEST(TurnEndTokens, ErnieEndsTurnsWithATokenOfItsOwn) {
  const auto model = MakeTestModel([](int64_t) { return 'a'; });
  EXPECT_EQ(TurnEndTokens(*model), std::vector<int32_t>{TestTokenizer::kSentence});
}

// The real template and tokenizer of the embedded model, against the ids it was trained with.
TEST(ErneMini, PromptsAreTheExpectedTokens) {
  const auto files = OpenFolder(SourceFolder("models/erne-mini"));
  ASSERT_TRUE(files.ok()) << files.status().message();
  ModelSpec spec;
  spec.architecture = "ernie4_5_moe";
  spec.vocab_size = 16384;
  spec.eos_tokens = {2};
  const auto loaded = LoadChatTemplate(**files, spec);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const auto tokenizer = LoadTokenizer(**files);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const Json expected = Json::Parse((*files)->Text("expected_greedy.json").value()).value();
  Json trusted = loaded->variables;
  trusted.Set("add_generation_prompt", true);
  for (const Json& one : expected.Find("cases")->AsArray()) {
    Json message = Json::Of({{"role", "user"}, {"content", *one.Find("prompt")}});
    const Json untrusted = Json::Of({{"messages", Json(Json::Array{std::move(message)})}});
    const auto pieces = loaded->chat_template->Render(trusted, untrusted);
    ASSERT_TRUE(pieces.ok()) << pieces.status().message();
    std::vector<int32_t> ids;
    for (const Json& id : one.Find("prompt_ids")->AsArray()) {
      ids.push_back(static_cast<int32_t>(id.AsInt()));
    }
    EXPECT_EQ((*tokenizer)->Encode(*pieces), ids) << one.Find("prompt")->AsString();
  }
  const auto defaults = LoadGenerationDefaults(**files, spec);
  ASSERT_TRUE(defaults.ok()) << defaults.status().message();
  EXPECT_EQ(defaults->eos_tokens, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(defaults->repetition_penalty, 1.05F);
}

}  // namespace
}  // namespace erne
