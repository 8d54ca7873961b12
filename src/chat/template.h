// Chat templates: a model's own Jinja template, compiled once, rendered per request.
//
// The language is the part of Jinja2 3.1 that chat templates use, with transformers' settings:
// trim_blocks, lstrip_blocks, loop controls, `tojson` without ASCII escapes,
// raise_exception(message), strftime_now(format). Templates and the values they see come from
// outside: depth, steps and output size are limited.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "base/text_piece.h"

namespace erne {

struct TemplateLimits {
  int max_depth = 200;                   // nesting of expressions, blocks, macro calls and values
  int64_t max_steps = 5'000'000;         // evaluated nodes; 64 bytes read or written count as one
  size_t max_output = 64 * 1024 * 1024;  // bytes, of the output and of any string on the way
};

// Immutable after Compile; Render may run on several threads at once.
class ChatTemplate {
 public:
  // What strftime_now shows: seconds since 1970-01-01 00:00 of the local clock (that is, with the
  // zone's offset added).
  using Clock = std::function<int64_t()>;

  // A syntax error is an InvalidArgument that names line and column and the construct: "chat
  // template line 3, column 7: unknown tag 'foo'". `clock` is for tests and must be callable from
  // any thread; the system's is the default.
  static Result<std::unique_ptr<const ChatTemplate>> Compile(std::string_view source,
                                                             const TemplateLimits& limits = {},
                                                             Clock clock = nullptr);
  ~ChatTemplate();

  // Renders with the members of two objects as top-level names: `trusted` (add_generation_prompt,
  // bos_token, ...: the server's own) and `untrusted` (messages, tools, ...: what a request
  // brought; it wins where a name is in both). Absent names are undefined (not null). Text that the
  // template wrote, or that comes from `trusted`, is trusted in the result; text from `untrusted`
  // is not, through concatenation, slicing, filters and methods (a result that mixes the two inside
  // one transformation, such as tojson or replace, may be marked untrusted as a whole). Errors:
  // InvalidArgument with raise_exception's own message, or what failed and the template line.
  // With the default limits it needs less than 2 MiB of stack (release build).
  Result<std::vector<TextPiece>> Render(const Json& trusted, const Json& untrusted) const;

 private:
  class Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace erne
