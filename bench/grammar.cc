// erne_bench_grammar: what the form of an answer costs beside its tokens, on one core.
//
//   erne_bench_grammar MODEL
//
// For each form: the time to compile it, then that of taking a token and making the next mask, over
// a model's vocabulary, for an answer that is written token by token. Twice: with masks that are
// made as they are needed, and with those of the answers before it, as a server has them.
//
// Nothing is timed before it is verified: every token of the answer must be allowed, and the form
// complete behind the last one.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_set.h"
#include "base/status.h"
#include "grammar/grammar_compiler.h"
#include "grammar/matcher.h"
#include "text/tokenizer.h"

namespace erne {
namespace {

using grammar::CompiledGrammar;
using grammar::Form;
using grammar::Matcher;

constexpr int64_t kPlenty = 100'000;  // tokens that are left

struct FormCase {
  std::string name;
  Form form;
  std::string answer;
};

std::vector<FormCase> Cases() {
  const std::string text(600, 'x');
  return {
      {"schema",
       {Form::Kind::kJsonSchema,
        R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}}, "note": {"type": "string"}},
            "required": ["name", "age", "tags", "note"]})"},
       R"({"name": "李白", "age": 61, "tags": ["诗人", "唐代"], "note": "他最有名的诗是静夜思。"})"},
      {"JSON object",
       {Form::Kind::kJsonObject},
       R"({"a": [1, 2.5, {"b": "one two three", "c": [true, false, null]}], "d": "four five six"})"},
      {"long text", {Form::Kind::kJsonSchema, R"({"type": "string"})"}, "\"" + text + "\""},
      {"bounded text",
       {Form::Kind::kJsonSchema, R"({"type": "string", "maxLength": 1000})"},
       "\"" + text + "\""},
      {"arithmetic",
       {Form::Kind::kEbnf,
        R"G(root ::= sum "." sum ::= term ("+" term)* term ::= [0-9]+ | "(" sum ")")G"},
       "1+(22+(333+4))+(5+(6+(7+(8))))."},
  };
}

Status Verify(const std::shared_ptr<const CompiledGrammar>& form,
              const std::vector<int32_t>& tokens) {
  Matcher matcher(form, {}, kPlenty);
  for (const int32_t token : tokens) {
    if ((matcher.mask()[static_cast<size_t>(token) / 32] >> (token % 32) & 1) == 0) {
      return Internal("a token of the answer is not allowed");
    }
    matcher.Accept(token, kPlenty);
  }
  return matcher.complete() ? Status() : Internal("the answer is not complete");
}

// Microseconds of a token.
double Time(const std::shared_ptr<const CompiledGrammar>& form,
            const std::vector<int32_t>& tokens) {
  const double begin = SteadySeconds();
  Matcher matcher(form, {}, kPlenty);
  for (const int32_t token : tokens) matcher.Accept(token, kPlenty);
  return 1e6 * (SteadySeconds() - begin) / static_cast<double>(tokens.size());
}

Status Run(const std::string& folder) {
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<const FileSet> files, OpenFolder(folder));
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<const Tokenizer> tokenizer, LoadTokenizer(*files));
  const auto vocab = static_cast<int32_t>(tokenizer->vocab_size());
  std::vector<std::string> texts;
  for (int32_t token = 0; token < vocab; ++token) {
    texts.push_back(tokenizer->IsSpecial(token) ? "" : tokenizer->TokenBytes(token));
  }
  double begin = SteadySeconds();
  const auto vocabulary = std::make_shared<const grammar::Vocabulary>(texts, vocab);
  std::printf("vocabulary of %d tokens: %.1f ms\n", vocab, 1e3 * (SteadySeconds() - begin));
  std::printf("%-14s %8s %8s %12s %14s %14s\n", "form", "states", "tokens", "compile ms",
              "first us/token", "then us/token");
  for (const FormCase& each : Cases()) {
    begin = SteadySeconds();
    ERNE_ASSIGN_OR_RETURN(const grammar::Grammar parsed, grammar::ParseForm(each.form));
    ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<const CompiledGrammar> form,
                          CompiledGrammar::Compile(parsed, vocabulary));
    const double compile = SteadySeconds() - begin;
    const std::vector<int32_t> tokens = vocabulary->Spell(each.answer);
    const double first = Time(form, tokens);
    ERNE_RETURN_IF_ERROR(Verify(form, tokens).WithContext(each.name));
    double then = first;
    for (int turn = 0; turn < 20; ++turn) then = std::min(then, Time(form, tokens));
    std::printf("%-14s %8zu %8zu %12.2f %14.1f %14.2f\n", each.name.c_str(),
                form->automaton().size(), tokens.size(), 1e3 * compile, first, then);
  }
  return {};
}

}  // namespace
}  // namespace erne

int main(int argc, char** argv) {
  const erne::Status status =
      argc == 2 ? erne::Run(argv[1]) : erne::InvalidArgument("usage: erne_bench_grammar MODEL");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
