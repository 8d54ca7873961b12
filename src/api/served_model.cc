#include "api/served_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string_view>

#include "base/strings.h"
#include "base/utf8.h"

namespace erne {
namespace {

void AddUnique(std::string name, std::vector<std::string>& names) {
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  names.push_back(std::move(name));
}

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t begin = 0;
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, begin)) {
    out += text.substr(begin, at - begin);
    out += to;
    begin = at + from.size();
  }
  out += text.substr(begin);
  return out;
}

// The model's name out of a path. Two caches have a form of their own:
//   .../models--baidu--ERNIE-4.5-0.3B-PT/snapshots/<commit>   Hugging Face
//   .../PaddlePaddle/ERNIE-4___5-0___3B-PT                    ModelScope, which keeps no dots
std::string NameInPath(const std::string& path) {
  constexpr std::string_view kEmbedded = "embedded:";
  if (path.starts_with(kEmbedded)) return path.substr(kEmbedded.size());
  const std::filesystem::path given(path);
  const bool is_relative_step = given.filename() == "." || given.filename() == "..";
  std::error_code ignored;
  std::filesystem::path folder = is_relative_step
                                     ? std::filesystem::weakly_canonical(given, ignored)
                                     : given.lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  if (folder.parent_path().filename() == "snapshots") {
    const std::string repository = folder.parent_path().parent_path().filename().string();
    const size_t at = repository.rfind("--");
    if (repository.starts_with("models--") && at != std::string::npos)
      return repository.substr(at + 2);
  }
  return ReplaceAll(folder.filename().string(), "___", ".");
}

Result<Json> ReadJsonFile(const FileSet& files, std::string_view name) {
  if (!files.Has(name)) return Json::MakeObject();
  ERNE_ASSIGN_OR_RETURN(const std::string_view text, files.Text(name));
  Result<Json> json = Json::Parse(text);
  if (!json.ok()) return json.status().WithContext(files.PathOf(name));
  if (!json->is_object()) {
    return InvalidArgument(
        StrCat(files.PathOf(name), ": must hold a JSON object, not ", json->KindName()));
  }
  return json;
}

// Reads an optional number of generation_config.json within [min, max] (above min with `above`).
Status ReadDefault(const Json& config, std::string_view name, double min, bool above, double max,
                   std::optional<double>& out) {
  const Json* value = config.Find(name);
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_number()) {
    return InvalidArgument(StrCat("`", name, "` must be a number, not ", value->KindName()));
  }
  const double number = value->AsDouble();
  if (number < min || (above && number <= min) || number > max) {
    return InvalidArgument(StrCat("`", name, "` is out of range: ", value->Dump()));
  }
  out = number;
  return {};
}

// The same of a whole number.
Status ReadWholeDefault(const Json& config, std::string_view name, double min,
                        std::optional<double>& out) {
  ERNE_RETURN_IF_ERROR(
      ReadDefault(config, name, min, false, std::numeric_limits<int32_t>::max(), out));
  if (!out || std::trunc(*out) == *out) return {};
  return InvalidArgument(StrCat("`", name, "` must be an integer, not ", *out));
}

Status AddEndTokens(const Json& config, int64_t vocab_size, std::vector<int32_t>& out) {
  const Json* eos = config.Find("eos_token_id");
  if (eos == nullptr || eos->is_null()) return {};
  const Json::Array one = {*eos};
  for (const Json& id : eos->is_array() ? eos->AsArray() : one) {
    if (!id.is_int() || id.AsInt() < 0 || id.AsInt() >= vocab_size) {
      return InvalidArgument(
          StrCat("`eos_token_id` must hold token ids below ", vocab_size, ", not ", id.Dump()));
    }
    const auto token = static_cast<int32_t>(id.AsInt());
    if (std::find(out.begin(), out.end(), token) == out.end()) out.push_back(token);
  }
  return {};
}

Status ReadDefaults(const Json& config, int64_t vocab_size, GenerationDefaults& defaults) {
  std::optional<double> temperature, top_p, top_k, min_p, penalty, max_tokens;
  ERNE_RETURN_IF_ERROR(ReadDefault(config, "temperature", 0, false, 1e6, temperature));
  ERNE_RETURN_IF_ERROR(ReadDefault(config, "top_p", 0, true, 1, top_p));
  ERNE_RETURN_IF_ERROR(ReadWholeDefault(config, "top_k", -1, top_k));
  ERNE_RETURN_IF_ERROR(ReadDefault(config, "repetition_penalty", 0, true, 1e6, penalty));
  ERNE_RETURN_IF_ERROR(ReadDefault(config, "min_p", 0, false, 1, min_p));
  ERNE_RETURN_IF_ERROR(ReadWholeDefault(config, "max_new_tokens", 1, max_tokens));
  if (temperature) defaults.temperature = static_cast<float>(*temperature);
  if (top_p) defaults.top_p = static_cast<float>(*top_p);
  if (top_k) defaults.top_k = static_cast<int32_t>(*top_k);
  if (penalty) defaults.repetition_penalty = static_cast<float>(*penalty);
  if (min_p) defaults.min_p = static_cast<float>(*min_p);
  if (max_tokens) defaults.max_tokens = static_cast<int64_t>(*max_tokens);
  return AddEndTokens(config, vocab_size, defaults.eos_tokens);
}

bool IsErnie(const ModelSpec& spec) { return spec.architecture.starts_with("ernie4_5"); }

// The chat form of the ERNIE-4.5 PT models, for checkpoints that bring no template.
constexpr std::string_view kErnieTemplate =
    R"({{- cls_token | default("<|begin_of_sentence|>") -}}
{%- for message in messages -%}
  {%- if message.role == "user" -%}
    {{- "User: " + message.content + "\n" -}}
  {%- elif message.role == "assistant" -%}
    {{- "Assistant: " + message.content + (sep_token | default("<|end_of_sentence|>")) -}}
  {%- elif message.role == "system" -%}
    {{- message.content + "\n" -}}
  {%- else -%}
    {{- raise_exception("this model's chat form knows no messages of role " + message.role) -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- "Assistant: " -}}
{%- endif -%})";

// A template text and the place it comes from, for messages.
struct TemplateSource {
  std::string text;
  std::string place;
};

// `chat_template` of a configuration file: a text, or a list of named ones of which "default"
// counts. No text: nothing.
Result<TemplateSource> TemplateMember(const Json& config, const std::string& file) {
  const std::string place = StrCat(file, ": `chat_template`");
  const Json* value = config.Find("chat_template");
  if (value == nullptr || value->is_null()) return TemplateSource();
  if (value->is_string()) return TemplateSource{value->AsString(), place};
  if (!value->is_array()) {
    return InvalidArgument(StrCat(place, " must be a string or a list, not ", value->KindName()));
  }
  std::vector<std::string> names;
  const Json* chosen = nullptr;
  for (const Json& entry : value->AsArray()) {
    const Json* name = entry.Find("name");
    const Json* text = entry.Find("template");
    if (name == nullptr || !name->is_string() || text == nullptr || !text->is_string()) {
      return InvalidArgument(StrCat(place, " must hold objects with name and template"));
    }
    names.push_back(name->AsString());
    if (name->AsString() == "default" || value->AsArray().size() == 1) chosen = text;
  }
  if (chosen == nullptr) {
    return InvalidArgument(
        StrCat(place, " has no template named default, only: ", Join(names, ", ")));
  }
  return TemplateSource{chosen->AsString(), place};
}

Result<TemplateSource> FindTemplate(const FileSet& files, const ModelSpec& spec,
                                    const Json& tokenizer_config) {
  if (files.Has("chat_template.jinja")) {
    ERNE_ASSIGN_OR_RETURN(const std::string_view text, files.Text("chat_template.jinja"));
    return TemplateSource{std::string(text), files.PathOf("chat_template.jinja")};
  }
  ERNE_ASSIGN_OR_RETURN(TemplateSource source,
                        TemplateMember(tokenizer_config, files.PathOf("tokenizer_config.json")));
  if (!source.place.empty()) return source;
  ERNE_ASSIGN_OR_RETURN(const Json own_file, ReadJsonFile(files, "chat_template.json"));
  ERNE_ASSIGN_OR_RETURN(source, TemplateMember(own_file, files.PathOf("chat_template.json")));
  if (!source.place.empty()) return source;
  if (IsErnie(spec))
    return TemplateSource{std::string(kErnieTemplate), "the built-in ERNIE template"};
  return NotFound(
      StrCat(files.path(),
             " has no chat template: looked for chat_template.jinja, and for `chat_template` in "
             "tokenizer_config.json and chat_template.json"));
}

// A special token of tokenizer_config.json: its text, or an object that holds it as `content`. Null
// when there is none.
Json TokenText(const Json& config, std::string_view name) {
  const Json* value = config.Find(name);
  if (value != nullptr && value->is_object()) value = value->Find("content");
  return value != nullptr && value->is_string() ? *value : Json();
}

Result<Json> TemplateVariables(const FileSet& files, const Json& tokenizer_config) {
  ERNE_ASSIGN_OR_RETURN(const Json map, ReadJsonFile(files, "special_tokens_map.json"));
  Json variables = Json::MakeObject();
  for (const char* name : {"bos_token", "eos_token", "unk_token", "pad_token", "cls_token",
                           "sep_token", "mask_token"}) {
    Json text = TokenText(tokenizer_config, name);
    if (text.is_null()) text = TokenText(map, name);
    if (!text.is_null()) variables.Set(name, std::move(text));
  }
  return variables;
}

// The ids of the special tokens that a TemplateProcessing post-processor of tokenizer.json puts
// before a text.
void AddTemplatePrefix(const Json& processor, std::vector<int32_t>& prefix) {
  if (const Json* parts = processor.Find("processors"); parts != nullptr && parts->is_array()) {
    for (const Json& part : parts->AsArray()) AddTemplatePrefix(part, prefix);
  }
  const Json* single = processor.Find("single");
  const Json* specials = processor.Find("special_tokens");
  if (single == nullptr || !single->is_array() || specials == nullptr) return;
  for (const Json& step : single->AsArray()) {
    const Json* special = step.Find("SpecialToken");
    const Json* name = special == nullptr ? nullptr : special->Find("id");
    if (name == nullptr || !name->is_string()) return;  // the text itself
    const Json* entry = specials->Find(name->AsString());
    const Json* ids = entry == nullptr ? nullptr : entry->Find("ids");
    if (ids == nullptr || !ids->is_array()) return;
    for (const Json& id : ids->AsArray()) {
      if (id.is_int()) prefix.push_back(static_cast<int32_t>(id.AsInt()));
    }
  }
}

}  // namespace

std::vector<std::string> ServedNames(const std::string& path,
                                     const std::vector<std::string>& served) {
  std::vector<std::string> names;
  // Answers are UTF-8; a path or an argument may be any bytes.
  for (const std::string& name : served) AddUnique(SanitizeUtf8(name), names);
  if (names.empty()) {
    AddUnique(SanitizeUtf8(NameInPath(path)), names);
    AddUnique(SanitizeUtf8(path), names);
  }
  const std::vector<std::string> as_written = names;
  for (const std::string& name : as_written) AddUnique(ToLowerAscii(name), names);
  return names;
}

bool FindsModel(const std::vector<std::string>& names, const std::string& asked) {
  const std::string wanted = ToLowerAscii(asked);
  if (wanted.empty()) return false;
  for (const std::string& name : names) {
    const std::string own = ToLowerAscii(name);
    if (own == wanted || own.ends_with("/" + wanted)) return true;
  }
  return false;
}

std::vector<std::string> DistinctNames(const std::vector<std::string>& names) {
  std::vector<std::string> seen;
  std::vector<std::string> distinct;
  for (const std::string& name : names) {
    std::string lower = ToLowerAscii(name);
    if (std::find(seen.begin(), seen.end(), lower) != seen.end()) continue;
    seen.push_back(std::move(lower));
    distinct.push_back(name);
  }
  return distinct;
}

Result<GenerationDefaults> LoadGenerationDefaults(const FileSet& files, const ModelSpec& spec) {
  constexpr const char* kFile = "generation_config.json";
  GenerationDefaults defaults;
  for (const int64_t token : spec.eos_tokens)
    defaults.eos_tokens.push_back(static_cast<int32_t>(token));
  if (!files.Has(kFile)) return defaults;
  ERNE_ASSIGN_OR_RETURN(const std::string_view text, files.Text(kFile));
  if (Strip(text).empty()) return defaults;
  ERNE_ASSIGN_OR_RETURN(const Json config, ReadJsonFile(files, kFile));
  const Status status = ReadDefaults(config, spec.vocab_size, defaults);
  if (!status.ok()) return status.WithContext(files.PathOf(kFile));
  return defaults;
}

Result<std::vector<int32_t>> LoadPromptPrefix(const FileSet& files, const Tokenizer& tokenizer) {
  ERNE_ASSIGN_OR_RETURN(const Json config, ReadJsonFile(files, "tokenizer_config.json"));
  const Json* says = config.Find("add_bos_token");
  const Json* name = config.Find("tokenizer_class");
  const bool is_llama =
      name != nullptr && name->is_string() && name->AsString().starts_with("LlamaTokenizer");
  std::vector<int32_t> prefix;
  if (says == nullptr && files.Has("tokenizer.json")) {
    ERNE_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(files, "tokenizer.json"));
    if (const Json* processor = json.Find("post_processor")) AddTemplatePrefix(*processor, prefix);
  } else if (says != nullptr && says->is_bool() ? says->AsBool() : is_llama) {
    const Json bos = TokenText(config, "bos_token");
    const auto id = tokenizer.PieceId(bos.is_string() ? bos.AsString() : "<s>");
    if (id) prefix.push_back(*id);
  }
  for (const int32_t token : prefix) {
    if (token >= 0 && token < tokenizer.vocab_size()) continue;
    return InvalidArgument(StrCat(files.PathOf("tokenizer.json"), ": `post_processor` names id ",
                                  token, ", which is no token"));
  }
  return prefix;
}

Result<LoadedTemplate> LoadChatTemplate(const FileSet& files, const ModelSpec& spec) {
  ERNE_ASSIGN_OR_RETURN(const Json tokenizer_config, ReadJsonFile(files, "tokenizer_config.json"));
  ERNE_ASSIGN_OR_RETURN(const TemplateSource source, FindTemplate(files, spec, tokenizer_config));
  LoadedTemplate loaded;
  ERNE_ASSIGN_OR_RETURN(loaded.variables, TemplateVariables(files, tokenizer_config));
  auto compiled = ChatTemplate::Compile(source.text);
  if (!compiled.ok()) return compiled.status().WithContext(source.place);
  loaded.chat_template = std::move(compiled).value();
  loaded.answer_markup = MarkupOfTemplate(source.text);

  Json trusted = loaded.variables;
  trusted.Set("add_generation_prompt", true);
  Json message = Json::Of({{"role", "user"}, {"content", "Hello"}});
  const Json untrusted = Json::Of({{"messages", Json(Json::Array{std::move(message)})},
                                   {"tools", Json()},
                                   {"documents", Json()}});
  const auto pieces = loaded.chat_template->Render(trusted, untrusted);
  if (!pieces.ok())
    return pieces.status().WithContext(source.place + ", tried on one user message");
  if (std::all_of(pieces->begin(), pieces->end(),
                  [](const auto& piece) { return piece.text.empty(); }))
    return InvalidArgument(source.place + ", tried on one user message: renders no text");
  return loaded;
}

std::vector<int32_t> TurnEndTokens(const ServedModel& model) {
  if (!IsErnie(model.engine->spec())) return {};
  Json trusted = model.template_variables;
  trusted.Set("add_generation_prompt", false);
  Json::Array turns = {Json::Of({{"role", "user"}, {"content", "a"}}),
                       Json::Of({{"role", "assistant"}, {"content", "b"}})};
  const auto pieces =
      model.chat_template->Render(trusted, Json::Of({{"messages", Json(std::move(turns))}}));
  if (!pieces.ok()) return {};  // a template may refuse to end with an assistant's turn
  std::vector<TextPiece> tail;
  for (const TextPiece& piece : *pieces) {
    if (piece.trusted) {
      tail.push_back(piece);
    } else {
      tail.clear();
    }
  }
  if (tail.empty()) return {};
  const std::vector<int32_t> tokens = model.tokenizer->Encode(tail);
  if (tokens.empty() || !model.tokenizer->IsSpecial(tokens.front())) return {};
  return {tokens.front()};
}

}  // namespace erne
