// A model that answers chat requests: its engine, and what its files say about text, templates and
// sampling.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_set.h"
#include "base/json.h"
#include "base/memory_ledger.h"
#include "base/status.h"
#include "chat/answer_markup.h"
#include "chat/template.h"
#include "engine/engine.h"
#include "model/model_spec.h"
#include "text/tokenizer.h"

namespace erne {

class ModelObserver;

// Sampling defaults of a model (its generation_config.json); request fields win over them, OpenAI's
// defaults come last. As in vLLM, do_sample is not looked at: a client that wants greedy answers
// sends temperature 0.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int32_t> top_k;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int64_t> max_tokens;  // max_new_tokens
  std::vector<int32_t> eos_tokens;    // generation ends with these; the first is the primary one
};

// One model that is ready to answer. Immutable but for the engine, which is thread-safe.
struct ServedModel {
  std::vector<std::string>
      names;         // the first is the one that answers carry; see FindsModel for those accepted
  std::string root;  // path or "embedded:erne-mini", for /v1/models
  int64_t created = 0;                      // seconds since the epoch
  MemoryLedger::Reservation memory;         // what the engine's executor takes; outlives it
  std::shared_ptr<ModelObserver> observer;  // the engine's; null: nobody watches
  std::unique_ptr<Engine> engine;
  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<const ChatTemplate> chat_template;
  AnswerMarkup answer_markup;  // how reasoning and tool calls are marked
  bool takes_request_templates =
      false;  // chat_template in a request (--trust-request-chat-template)
  Json template_variables =
      Json::MakeObject();  // trusted: bos_token, ..., and those of the operator
  GenerationDefaults defaults;
  // What the tokenizer puts before a text of its own (add_special_tokens): bos in Llama's models,
  // nothing in ERNIE's, whose chat template writes it.
  std::vector<int32_t> prompt_prefix;
};

// Names under which a model is served, in order, without duplicates: `served` (from
// --served-model-name), else the name of the model in `path` and the path itself; and the
// lower-case form of each. The name is the last folder of the path; in the caches of Hugging Face
// and ModelScope it is the repository's name.
std::vector<std::string> ServedNames(const std::string& path,
                                     const std::vector<std::string>& served);

// Whether `asked` means a model with these names: any of them in any letter case, or the end of one
// after a '/', so that of the path /data/baidu/ERNIE-4.5-0.3B-PT the repository id
// baidu/ernie-4.5-0.3b-pt is a name too.
bool FindsModel(const std::vector<std::string>& names, const std::string& asked);

// The names that differ in more than letter case: what lists show.
std::vector<std::string> DistinctNames(const std::vector<std::string>& names);

// Sampling defaults out of generation_config.json (empty or absent: none) and the spec's eos
// tokens.
Result<GenerationDefaults> LoadGenerationDefaults(const FileSet& files, const ModelSpec& spec);

// The tokens that the folder's tokenizer puts before a text: those of tokenizer.json's
// post-processor, or bos when tokenizer_config.json says so (add_bos_token, which the classes of
// Llama's tokenizers assume).
Result<std::vector<int32_t>> LoadPromptPrefix(const FileSet& files, const Tokenizer& tokenizer);

// The folder's chat template (chat_template.jinja, else that of tokenizer_config.json, else
// chat_template.json; ERNIE's own form for an ERNIE checkpoint without one) compiled and tried on
// one message, and the special-token variables it may use.
struct LoadedTemplate {
  std::unique_ptr<const ChatTemplate> chat_template;
  AnswerMarkup answer_markup;  // that the template shows
  Json variables;
};
Result<LoadedTemplate> LoadChatTemplate(const FileSet& files, const ModelSpec& spec);

// The control tokens with which an ERNIE model's template ends an assistant's turn:
// <|end_of_sentence|> in the PT models, whose configuration names </s> alone. Empty for other
// models: their configuration is complete.
std::vector<int32_t> TurnEndTokens(const ServedModel& model);

}  // namespace erne
