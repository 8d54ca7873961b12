// Failures inside the template engine travel as exceptions, because they cross many levels of
// evaluation; Compile and Render catch them, so that none leaves the module.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace erne::jinja {

// What failed, as a sentence without a place; the evaluator knows the line.
struct RenderError {
  std::string message;
  bool verbatim = false;  // raise_exception: the message is the template author's, nothing is added
};

// The template text is not well formed. Line and column count from 1.
struct SyntaxError {
  std::string message;
  int line = 1;
  int column = 1;
};

template <typename... Args>
[[noreturn]] void Fail(const Args&... args) {
  throw RenderError{StrCat(args...)};
}

}  // namespace erne::jinja
