// Answers of hostile models: the first byte chooses the form, the second how the rest, the answer,
// is cut. Whole or in pieces it must parse to the same, and no text that is not white space or a
// marker may be lost when there are no calls.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "chat/answer_parser.h"

namespace {

using erne::ParsedPiece;

void Append(ParsedPiece more, ParsedPiece& to) {
  to.reasoning += more.reasoning;
  to.content += more.content;
  std::move(more.calls.begin(), more.calls.end(), std::back_inserter(to.calls));
}

ParsedPiece Parse(const erne::AnswerParserOptions& options, std::string_view text, size_t step) {
  erne::AnswerParser parser(options);
  ParsedPiece sum;
  for (; !text.empty(); text.remove_prefix(std::min(step, text.size()))) {
    Append(parser.Add(text.substr(0, step)), sum);
  }
  Append(parser.Finish(), sum);
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  erne::AnswerParserOptions options{.tools = {"f"}};
  options.markup.tool_calls = static_cast<erne::ToolCallForm>(data[0] % 5);
  options.markup.reasoning = (data[0] & 32) != 0;
  options.markup.response_tags = (data[0] & 64) != 0;
  options.in_reasoning = (data[0] & 128) != 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const ParsedPiece whole = Parse(options, text, text.size() + 1);
  ERNE_CHECK(Parse(options, text, 1) == whole);
  ERNE_CHECK(Parse(options, text, size_t{2} + data[1] % 31) == whole);
  if (!options.markup.reasoning && !options.markup.response_tags && whole.calls.empty()) {
    ERNE_CHECK(whole.content == text);
  }
  return 0;
}
