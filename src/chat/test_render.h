// For tests: a template and its context, given as JSON text, to what comes out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "chat/template.h"

namespace erne {

inline int64_t TestClock() { return 1767323045; }  // 2026-01-02T03:04:05

inline Result<std::vector<TextPiece>> RenderPieces(std::string_view source,
                                                   std::string_view untrusted,
                                                   std::string_view trusted = "{}",
                                                   const TemplateLimits& limits = {}) {
  const auto compiled = ChatTemplate::Compile(source, limits, TestClock);
  if (!compiled.ok()) return compiled.status();
  const auto context = Json::Parse(untrusted);
  const auto server = Json::Parse(trusted);
  EXPECT_TRUE(context.ok()) << context.status().message();
  EXPECT_TRUE(server.ok()) << server.status().message();
  return (*compiled)->Render(*server, *context);
}

// The text, or "error: ..." which no test expects.
inline std::string RenderText(std::string_view source, std::string_view context = "{}") {
  const auto pieces = RenderPieces(source, context);
  if (!pieces.ok()) return "error: " + pieces.status().message();
  std::string text;
  for (const TextPiece& piece : *pieces) text += piece.text;
  return text;
}

// The message of the failure to compile or to render; "rendered ..." when there is none.
inline std::string RenderError(std::string_view source, std::string_view context = "{}",
                               const TemplateLimits& limits = {}) {
  const auto pieces = RenderPieces(source, context, "{}", limits);
  if (!pieces.ok()) return pieces.status().message();
  std::string text = "rendered ";
  for (const TextPiece& piece : *pieces) text += piece.text.substr(0, 100);
  return text;
}

}  // namespace erne
