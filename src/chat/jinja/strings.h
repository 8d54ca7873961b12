// Operations on texts, shared by operators, filters and methods.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "chat/jinja/runtime.h"
#include "chat/jinja/text.h"

namespace erne::jinja {

// Offset of `needle` in `text` from `from` on, npos when it is not there. Linear in the worst case
// as well.
size_t FindBytes(std::string_view text, std::string_view needle, size_t from);

// a + b, with markupsafe's escaping when one of the two is markup.
Text Concatenate(Runtime& runtime, const Text& a, const Text& b);
// & < > " ' as HTML entities; the result is markup.
Text EscapeHtml(Runtime& runtime, const Text& text);

// str.replace; a negative `count` replaces all.
Text Replace(Runtime& runtime, const Text& text, const Text& old, const Text& replacement,
             int64_t count);

enum class Side { kLeft, kRight, kBoth };
// str.strip of white space, or of the characters of `chars`.
Text Strip(Runtime& runtime, const Text& text, Side side);
Text StripChars(Runtime& runtime, const Text& text, std::string_view chars, Side side);

// At least `width` characters: `fill` is added on the left, on the right, or on both sides.
Text Pad(Runtime& runtime, const Text& text, int64_t width, char32_t fill, Side side);
// str.center, which puts an odd character elsewhere than format() does.
Text Center(Runtime& runtime, const Text& text, int64_t width, char32_t fill);

enum class Case { kUpper, kLower, kSwap, kCapitalize, kTitle };
Text ChangeCase(Runtime& runtime, const Text& text, Case change);

// str.splitlines.
std::vector<Text> SplitLines(Runtime& runtime, const Text& text, bool keep_ends);

}  // namespace erne::jinja
