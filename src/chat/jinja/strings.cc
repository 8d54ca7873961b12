#include "chat/jinja/strings.h"

#include <algorithm>
#include <string>

#include <string.h>  // memmem

#include "base/utf8.h"
#include "chat/jinja/unicode.h"

namespace erne::jinja {
namespace {

// Whether the character is one that case distinguishes.
bool IsCased(char32_t c) { return IsLower(c) || IsUpper(c); }

bool IsLineBreak(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

void AppendCased(char32_t c, Case change, bool first, bool inside_word, std::string& out) {
  switch (change) {
    case Case::kUpper:
      AppendUpper(c, out);
      return;
    case Case::kLower:
      AppendUtf8(ToLower(c), out);
      return;
    case Case::kSwap:
      if (IsUpper(c)) {
        AppendUtf8(ToLower(c), out);
      } else {
        AppendUpper(c, out);
      }
      return;
    case Case::kCapitalize:
      if (first) {
        AppendTitle(c, out);
      } else {
        AppendUtf8(ToLower(c), out);
      }
      return;
    case Case::kTitle:
      if (inside_word) {
        AppendUtf8(ToLower(c), out);
      } else {
        AppendTitle(c, out);
      }
      return;
  }
}

}  // namespace

size_t FindBytes(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  if (needle.size() > text.size() - from)
    return std::string_view::npos;  // an empty text has no address
  // memmem and not string_view::find: the latter is quadratic for texts made to be so.
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos : static_cast<const char*>(found) - text.data();
}

Text EscapeHtml(Runtime& runtime, const Text& text) {
  if (text.markup()) return text;
  TextBuilder out(runtime.budget());
  text.ForEachRun(0, text.size(), [&out](std::string_view run, bool trusted) {
    size_t begin = 0;
    for (size_t i = 0; i < run.size(); ++i) {
      std::string_view entity;
      switch (run[i]) {
        case '&':
          entity = "&amp;";
          break;
        case '<':
          entity = "&lt;";
          break;
        case '>':
          entity = "&gt;";
          break;
        case '"':
          entity = "&#34;";
          break;
        case '\'':
          entity = "&#39;";
          break;
        default:
          continue;
      }
      out.Append(run.substr(begin, i - begin), trusted);
      out.Append(entity, trusted);
      begin = i + 1;
    }
    out.Append(run.substr(begin), trusted);
  });
  return out.Build().WithMarkup(true);
}

Text Concatenate(Runtime& runtime, const Text& a, const Text& b) {
  const bool markup = a.markup() || b.markup();
  TextBuilder out(runtime.budget());
  out.Append(markup ? EscapeHtml(runtime, a) : a);
  out.Append(markup ? EscapeHtml(runtime, b) : b);
  return out.Build().WithMarkup(markup);
}

Text Replace(Runtime& runtime, const Text& text, const Text& old, const Text& replacement,
             int64_t count) {
  const std::string_view view = text.view();
  runtime.budget().Bytes(view.size());
  TextBuilder out(runtime.budget());
  size_t copied = 0;
  size_t at = 0;
  while (count != 0) {
    const size_t found = FindBytes(view, old.view(), at);
    if (found == std::string_view::npos) break;
    out.AppendSub(text, copied, found);
    out.Append(replacement);
    copied = found + old.size();
    at = copied;
    if (old.empty()) {  // matches before each character and at the end
      if (at >= view.size()) break;
      std::string_view rest = view.substr(at);
      TakeChar(rest);
      at = view.size() - rest.size();
    }
    if (count > 0) --count;
  }
  if (copied == 0 && out.size() == 0) return text;
  out.AppendSub(text, copied, view.size());
  return out.Build();
}

Text Strip(Runtime& runtime, const Text& text, Side side) {
  std::string_view rest = text.view();
  if (side != Side::kRight) rest = StripSpaceLeft(rest);
  if (side != Side::kLeft) rest = StripSpaceRight(rest);
  runtime.budget().Bytes(text.size() - rest.size());
  const size_t begin = rest.empty() ? 0 : rest.data() - text.view().data();
  return text.Sub(runtime.budget(), begin, begin + rest.size());
}

Text StripChars(Runtime& runtime, const Text& text, std::string_view chars, Side side) {
  std::u32string set;
  for (std::string_view rest = chars; !rest.empty();) set.push_back(TakeChar(rest));
  std::sort(set.begin(), set.end());
  const auto in_set = [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); };
  runtime.budget().Bytes(text.size() + chars.size() * 8);
  const std::string_view view = text.view();
  size_t begin = 0;
  size_t end = view.size();
  while (side != Side::kRight && begin < end) {
    std::string_view rest = view.substr(begin, end - begin);
    if (!in_set(TakeChar(rest))) break;
    begin = end - rest.size();
  }
  while (side != Side::kLeft && begin < end) {
    size_t last = end - 1;
    while (last > begin && (static_cast<uint8_t>(view[last]) & 0xC0) == 0x80) --last;
    std::string_view character = view.substr(last, end - last);
    if (!in_set(TakeChar(character))) break;
    end = last;
  }
  return text.Sub(runtime.budget(), begin, end);
}

namespace {

Text PadWith(Runtime& runtime, const Text& text, int64_t left, int64_t right, char32_t fill) {
  std::string one;
  AppendUtf8(fill, one);
  const Text filling(one, text.trusted());
  TextBuilder out(runtime.budget());
  out.AppendRepeated(filling, left);
  out.Append(text);
  out.AppendRepeated(filling, right);
  return out.Build();
}

// Characters that are missing from `width`.
int64_t Missing(Runtime& runtime, const Text& text, int64_t width) {
  runtime.budget().Bytes(text.size());
  return std::max<int64_t>(width, 0) - static_cast<int64_t>(CountUtf8(text.view()));
}

}  // namespace

Text Pad(Runtime& runtime, const Text& text, int64_t width, char32_t fill, Side side) {
  const int64_t missing = Missing(runtime, text, width);
  if (missing <= 0) return text;
  const int64_t left = side == Side::kLeft ? missing : side == Side::kBoth ? missing / 2 : 0;
  return PadWith(runtime, text, left, missing - left, fill);
}

Text Center(Runtime& runtime, const Text& text, int64_t width, char32_t fill) {
  const int64_t missing = Missing(runtime, text, width);
  if (missing <= 0) return text;
  // CPython, Objects/unicodeobject.c, unicode_center_impl.
  const int64_t left = missing / 2 + (missing & width & 1);
  return PadWith(runtime, text, left, missing - left, fill);
}

Text ChangeCase(Runtime& runtime, const Text& text, Case change) {
  TextBuilder out(runtime.budget());
  bool first = true;
  bool inside_word = false;
  text.ForEachRun(0, text.size(), [&](std::string_view run, bool trusted) {
    std::string changed;
    changed.reserve(run.size());
    while (!run.empty()) {
      const char32_t c = TakeChar(run);
      AppendCased(c, change, first, inside_word, changed);
      first = false;
      if (change == Case::kTitle) inside_word = IsCased(c);
    }
    out.Append(changed, trusted);
  });
  return out.Build();
}

std::vector<Text> SplitLines(Runtime& runtime, const Text& text, bool keep_ends) {
  std::vector<Text> lines;
  const std::string_view view = text.view();
  size_t begin = 0;
  size_t at = 0;
  while (at < view.size()) {
    std::string_view rest = view.substr(at);
    const char32_t c = TakeChar(rest);
    const size_t line_end = at;
    at = view.size() - rest.size();
    if (!IsLineBreak(c)) continue;
    if (c == '\r' && at < view.size() && view[at] == '\n') ++at;
    runtime.budget().Steps();
    lines.push_back(text.Sub(runtime.budget(), begin, keep_ends ? at : line_end));
    begin = at;
  }
  if (begin < view.size()) lines.push_back(text.Sub(runtime.budget(), begin, view.size()));
  return lines;
}

}  // namespace erne::jinja
