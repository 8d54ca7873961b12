#include "grammar/grammar_compiler.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "grammar/ebnf.h"
#include "grammar/json_schema.h"
#include "grammar/regex.h"

namespace erne::grammar {
namespace {

// Masks are made ahead for so long: most grammars need less, and the rest is made when it is
// needed.
constexpr double kPrepareSeconds = 0.05;
constexpr size_t kMaxChoices = 4096;
constexpr size_t kMaxChoiceBytes = 256 * 1024;
constexpr size_t kMaxSchemaBytes = 1024 * 1024;

Grammar OneRule(std::string name, Expr body) {
  Grammar grammar;
  grammar.Define(grammar.Declare(std::move(name)), std::move(body));
  return grammar;
}

Result<Grammar> ParseChoices(const std::string& text) {
  ERNE_ASSIGN_OR_RETURN(const Json choices, Json::Parse(text));
  if (!choices.is_array() || choices.AsArray().empty() || choices.AsArray().size() > kMaxChoices) {
    return InvalidArgument(StrCat("it must be a list of 1 to ", kMaxChoices, " strings"));
  }
  std::vector<Expr> ways;
  size_t bytes = 0;
  for (const Json& choice : choices.AsArray()) {
    if (!choice.is_string() || choice.AsString().empty()) {
      return InvalidArgument(
          StrCat("it must hold strings that are not empty, not ", choice.Dump()));
    }
    bytes += choice.AsString().size();
    ways.push_back(Literal(choice.AsString()));
  }
  if (bytes > kMaxChoiceBytes) {
    return InvalidArgument(StrCat("it must have at most ", kMaxChoiceBytes, " bytes"));
  }
  return OneRule("(choice)", Choice(std::move(ways)));
}

}  // namespace

Result<Grammar> ParseForm(const Form& form) {
  switch (form.kind) {
    case Form::Kind::kRegex: {
      ERNE_ASSIGN_OR_RETURN(Expr body, ParseRegex(form.text));
      return OneRule("(regex)", std::move(body));
    }
    case Form::Kind::kChoice:
      return ParseChoices(form.text);
    case Form::Kind::kJsonObject:
      return AnyJsonObject();
    case Form::Kind::kJsonSchema: {
      if (form.text.size() > kMaxSchemaBytes) {
        return InvalidArgument(StrCat("it must have at most ", kMaxSchemaBytes, " bytes"));
      }
      ERNE_ASSIGN_OR_RETURN(const Json schema, Json::Parse(form.text));
      return ParseJsonSchema(schema);
    }
    case Form::Kind::kEbnf:
      return ParseEbnf(form.text);
  }
  return Internal("a form of no kind");
}

Result<std::shared_ptr<const CompiledGrammar>> GrammarCompiler::Compile(const Form& form) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = std::find_if(kept_.begin(), kept_.end(),
                                 [&](const Kept& kept) { return kept.form == form; });
    if (at != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, at);
      return at->grammar;
    }
  }
  ERNE_ASSIGN_OR_RETURN(const Grammar grammar, ParseForm(form));
  std::call_once(made_vocabulary_, [this] {
    vocabulary_ = std::make_shared<const Vocabulary>(texts_(), num_tokens_);
  });
  ERNE_ASSIGN_OR_RETURN(std::shared_ptr<const CompiledGrammar> compiled,
                        CompiledGrammar::Compile(grammar, vocabulary_));
  compiled->Prepare(kPrepareSeconds);
  const std::lock_guard<std::mutex> lock(mutex_);
  kept_.push_front({form, compiled});
  if (kept_.size() > kMaxKept) kept_.pop_back();
  return compiled;
}

}  // namespace erne::grammar
