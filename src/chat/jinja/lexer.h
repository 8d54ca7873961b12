// Template text to tokens, with the settings of transformers: trim_blocks (the newline after a
// block tag goes) and lstrip_blocks (so does white space before a block tag that begins its line).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace erne::jinja {

enum class TokenKind {
  kData,  // text between tags
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // of data, names, operators; strings without quotes and escapes
  int64_t integer = 0;
  double number = 0;
  int line = 1;
  int column = 1;
};

// Tokens, the last of which is kEnd. Throws SyntaxError.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace erne::jinja
