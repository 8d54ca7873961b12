// erne_grammar_walk MODEL: what forms allow over a model's vocabulary, for tests/grammar. Reads a
// JSON object from each line of stdin and answers it with one:
//   {"schema": {...}, "accepts": ["text", ...], "walks": N, "budget": TOKENS, "seed": S}
//   {"walks": [answers of tokens drawn evenly among those allowed], "accepts": [true, ...]}
// or {"error": "..."}. accepts: whether the tokens that spell a text are allowed one after the
// other, and the answer may end behind them.
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/file_set.h"
#include "base/json.h"
#include "base/strings.h"
#include "grammar/grammar_compiler.h"
#include "grammar/matcher.h"
#include "text/tokenizer.h"

namespace erne {
namespace {

using grammar::CompiledGrammar;
using grammar::Matcher;

bool Allows(const Matcher& matcher, int32_t token) {
  return (matcher.mask()[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

bool Accepts(const std::shared_ptr<const CompiledGrammar>& form, const Tokenizer& tokenizer,
             const std::string& text) {
  constexpr int64_t kPlenty = 100'000;
  // Behind another text, so that no space is put before it.
  const auto before = static_cast<ptrdiff_t>(tokenizer.Encode("\n", false).size());
  const std::vector<int32_t> tokens = tokenizer.Encode("\n" + text, false);
  Matcher matcher(form, {}, kPlenty);
  for (auto token = tokens.begin() + before; token != tokens.end(); ++token) {
    if (!Allows(matcher, *token)) return false;
    matcher.Accept(*token, kPlenty);
  }
  return matcher.may_end();
}

// Ends as an answer does: at an end token where it may end, when nothing may follow, or at the end
// of its budget.
std::string Walk(const std::shared_ptr<const CompiledGrammar>& form, int64_t budget, int32_t end,
                 std::mt19937_64& random) {
  Matcher matcher(form, {end}, budget);
  std::string text;
  while (budget > 0 && !matcher.complete()) {
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < form->vocabulary().num_tokens(); ++token) {
      if (Allows(matcher, token)) allowed.push_back(token);
    }
    ERNE_CHECK(!allowed.empty()) << text;
    const int32_t token = allowed[random() % allowed.size()];
    if (token == end) break;
    text += form->vocabulary().text(token);
    matcher.Accept(token, --budget);
  }
  ERNE_CHECK(matcher.may_end()) << text;
  return text;
}

Result<Json> Answer(const Json& task, const Tokenizer& tokenizer,
                    grammar::GrammarCompiler& compiler, int32_t end) {
  ERNE_ASSIGN_OR_RETURN(
      const std::shared_ptr<const CompiledGrammar> form,
      compiler.Compile({grammar::Form::Kind::kJsonSchema, task.Find("schema")->Dump()}));
  Json walks = Json::MakeArray();
  std::mt19937_64 random(static_cast<uint64_t>(task.Find("seed")->AsInt()));
  for (int64_t i = 0; i < task.Find("walks")->AsInt(); ++i) {
    walks.Push(Walk(form, form->shortest_answer() + task.Find("budget")->AsInt(), end, random));
  }
  Json accepts = Json::MakeArray();
  for (const Json& text : task.Find("accepts")->AsArray()) {
    accepts.Push(Accepts(form, tokenizer, text.AsString()));
  }
  return Json::Of({{"walks", std::move(walks)}, {"accepts", std::move(accepts)}});
}

Status Run(const std::string& folder) {
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<const FileSet> files, OpenFolder(folder));
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<const Tokenizer> tokenizer, LoadTokenizer(*files));
  grammar::GrammarCompiler compiler(
      [&tokenizer] {
        std::vector<std::string> texts;
        for (int32_t token = 0; token < static_cast<int32_t>(tokenizer->vocab_size()); ++token) {
          texts.push_back(tokenizer->IsSpecial(token) ? "" : tokenizer->TokenBytes(token));
        }
        return texts;
      },
      tokenizer->vocab_size());
  const int32_t end = tokenizer->PieceId("</s>").value();
  std::string line;
  while (std::getline(std::cin, line)) {
    ERNE_ASSIGN_OR_RETURN(const Json task, Json::Parse(line));
    const Result<Json> answer = Answer(task, *tokenizer, compiler, end);
    const Json told = answer.ok() ? *answer : Json::Of({{"error", answer.status().message()}});
    std::cout << told.Dump() << std::endl;
  }
  return {};
}

}  // namespace
}  // namespace erne

int main(int argc, char** argv) {
  const erne::Status status =
      argc == 2 ? erne::Run(argv[1]) : erne::InvalidArgument("usage: erne_grammar_walk MODEL");
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
