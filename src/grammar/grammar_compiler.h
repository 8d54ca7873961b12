// What a request says of the form of its answer -> a compiled grammar, kept for the next request
// that says the same.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/compiled_grammar.h"
#include "grammar/expression.h"
#include "grammar/vocabulary.h"

namespace erne::grammar {

// The form of an answer.
struct Form {
  enum class Kind {
    kRegex,       // text: a regular expression that matches all of the answer (regex.h)
    kChoice,      // text: a JSON array of strings, one of which is the answer
    kJsonObject,  // any JSON object; no text
    kJsonSchema,  // text: a JSON Schema (json_schema.h)
    kEbnf,        // text: a grammar in GBNF (ebnf.h)
  };
  Kind kind = Kind::kJsonObject;
  std::string text = {};

  bool operator==(const Form&) const = default;
};

// Errors are InvalidArguments that say what is wrong with the text.
Result<Grammar> ParseForm(const Form& form);

// Thread-safe.
class GrammarCompiler {
 public:
  // texts: what each token stands for, as Vocabulary takes it; asked for with the first form.
  GrammarCompiler(std::function<std::vector<std::string>()> texts, int64_t num_tokens)
      : texts_(std::move(texts)), num_tokens_(num_tokens) {}

  // Errors are those of ParseForm and Automaton::Compile. Takes up to about a second for the
  // largest grammars, and nothing for one of the last kMaxKept.
  Result<std::shared_ptr<const CompiledGrammar>> Compile(const Form& form);

  static constexpr size_t kMaxKept = 16;

 private:
  struct Kept {
    Form form;
    std::shared_ptr<const CompiledGrammar> grammar;
  };

  const std::function<std::vector<std::string>()> texts_;
  const int64_t num_tokens_;
  std::once_flag made_vocabulary_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::mutex mutex_;
  std::list<Kept> kept_;  // the last used one first
};

}  // namespace erne::grammar
