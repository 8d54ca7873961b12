// The small files beside a tokenizer that say which tokens are added and which are special:
// tokenizer_config.json, special_tokens_map.json and added_tokens.json. Each may be absent.
#pragma once

#include <string>
#include <vector>

#include "base/file_set.h"
#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer_spec.h"

namespace erne {

struct TokenizerConfig {
  std::vector<AddedToken>
      added;  // by id, one each; the strongest source wins (added_tokens_decoder)
  std::vector<std::string>
      special_names;  // contents named as bos_token, cls_token, additional_special_tokens ...
  // How LlamaTokenizer treats the space before a text (transformers, tokenization_llama.py); their
  // defaults.
  bool legacy = true;
  bool add_prefix_space = true;
};

Result<TokenizerConfig> ReadTokenizerConfig(const FileSet& files);

// One added token as tokenizer.json and added_tokens_decoder write it. `fallback_id` counts when it
// has no `id` member.
Result<AddedToken> ReadAddedToken(const Json& value, int64_t fallback_id);

// Joins the configuration into a spec read from the tokenizer file: added tokens take their ids
// over, those whose content is named special become special.
Status ApplyTokenizerConfig(const TokenizerConfig& config, TokenizerSpec& spec);

}  // namespace erne
