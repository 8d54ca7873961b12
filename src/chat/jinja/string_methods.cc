// Methods of str.
#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "chat/jinja/arguments.h"
#include "chat/jinja/builtins.h"
#include "chat/jinja/format.h"
#include "chat/jinja/method_tables.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/strings.h"
#include "chat/jinja/unicode.h"

namespace erne::jinja {
namespace {

constexpr size_t kNowhere = std::string_view::npos;

template <Case kChange>
Value ChangeCaseMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "this method", {});
  return Value(ChangeCase(runtime, self.AsText(), kChange));
}

template <Side kSide>
Value StripMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "strip", {"chars"});
  if (bound.GetUnlessNone(0) == nullptr) return Value(Strip(runtime, self.AsText(), kSide));
  return Value(StripChars(runtime, self.AsText(), bound.RequiredText(0).view(), kSide));
}

// A list of pieces of a text, each added when it is found.
class Pieces {
 public:
  Pieces(Runtime& runtime, const Text& text) : runtime_(runtime), text_(text) {}
  void Add(size_t begin, size_t end) {
    runtime_.budget().Steps();
    items_.emplace_back(text_.Sub(runtime_.budget(), begin, end));
  }
  void Reverse() { std::reverse(items_.begin(), items_.end()); }
  Value List() { return Value::MakeList(runtime_, std::move(items_)); }

 private:
  Runtime& runtime_;
  const Text& text_;
  std::vector<Value> items_;
};

// The last occurrence that ends at or before `end`.
size_t FindLast(std::string_view text, std::string_view needle, size_t end) {
  if (needle.size() > end) return kNowhere;
  return text.substr(0, end).rfind(needle);
}

Value SplitOnSpace(Runtime& runtime, const Text& text, int64_t limit) {
  Pieces pieces(runtime, text);
  const std::string_view all = text.view();
  std::string_view rest = StripSpaceLeft(all);
  while (!rest.empty()) {
    const size_t begin = all.size() - rest.size();
    if (limit == 0) {
      pieces.Add(begin, all.size());
      break;
    }
    size_t end = begin;
    while (!rest.empty()) {
      std::string_view behind = rest;
      if (IsSpace(TakeChar(behind))) break;
      rest = behind;
      end = all.size() - rest.size();
    }
    pieces.Add(begin, end);
    rest = StripSpaceLeft(rest);
    --limit;
  }
  return pieces.List();
}

Value RightSplitOnSpace(Runtime& runtime, const Text& text, int64_t limit) {
  Pieces pieces(runtime, text);
  std::string_view rest = StripSpaceRight(text.view());
  while (!rest.empty()) {
    if (limit == 0) {
      pieces.Add(0, rest.size());
      break;
    }
    const size_t end = rest.size();
    while (!rest.empty()) {
      size_t last = rest.size() - 1;
      while (last > 0 && (static_cast<uint8_t>(rest[last]) & 0xC0) == 0x80) --last;
      std::string_view character = rest.substr(last);
      if (IsSpace(TakeChar(character))) break;
      rest = rest.substr(0, last);
    }
    pieces.Add(rest.size(), end);
    rest = StripSpaceRight(rest);
    --limit;
  }
  pieces.Reverse();
  return pieces.List();
}

Value SplitMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "split", {"sep", "maxsplit"});
  const Text& text = self.AsText();
  int64_t limit = bound.Int(1, -1);
  runtime.budget().Bytes(text.size());
  if (bound.GetUnlessNone(0) == nullptr) return SplitOnSpace(runtime, text, limit);
  const std::string_view separator = bound.RequiredText(0).view();
  if (separator.empty()) Fail("empty separator");
  Pieces pieces(runtime, text);
  size_t begin = 0;
  while (limit != 0) {
    const size_t found = FindBytes(text.view(), separator, begin);
    if (found == kNowhere) break;
    pieces.Add(begin, found);
    begin = found + separator.size();
    --limit;
  }
  pieces.Add(begin, text.size());
  return pieces.List();
}

Value RightSplitMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "rsplit", {"sep", "maxsplit"});
  const Text& text = self.AsText();
  int64_t limit = bound.Int(1, -1);
  runtime.budget().Bytes(text.size());
  if (bound.GetUnlessNone(0) == nullptr) return RightSplitOnSpace(runtime, text, limit);
  const std::string_view separator = bound.RequiredText(0).view();
  if (separator.empty()) Fail("empty separator");
  Pieces pieces(runtime, text);
  size_t end = text.size();
  while (limit != 0) {
    const size_t found = FindLast(text.view(), separator, end);
    if (found == kNowhere) break;
    pieces.Add(found + separator.size(), end);
    end = found;
    --limit;
  }
  pieces.Add(0, end);
  pieces.Reverse();
  return pieces.List();
}

Value SplitLinesMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "splitlines", {"keepends"});
  runtime.budget().Bytes(self.AsText().size());
  std::vector<Value> lines;
  for (Text& line : SplitLines(runtime, self.AsText(), bound.Bool(0, false)))
    lines.emplace_back(std::move(line));
  return Value::MakeList(runtime, std::move(lines));
}

Value ExpandTabsMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "expandtabs", {"tabsize"});
  const int64_t size = bound.Int(0, 8);
  const Text& text = self.AsText();
  runtime.budget().Bytes(text.size());
  const Text space(" ", text.trusted());
  TextBuilder out(runtime.budget());
  int64_t column = 0;
  size_t copied = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.view()[i];
    if (c == '\t') {
      const int64_t width = size > 0 ? size - column % size : 0;
      out.AppendSub(text, copied, i);
      out.AppendRepeated(space, width);
      copied = i + 1;
      column += width;
    } else if (c == '\n' || c == '\r') {
      column = 0;
    } else if ((static_cast<uint8_t>(c) & 0xC0) != 0x80) {
      ++column;
    }
  }
  out.AppendSub(text, copied, text.size());
  return Value(out.Build());
}

template <bool kFromRight>
Value PartitionMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, kFromRight ? "rpartition" : "partition", {"sep"}, 1);
  const Text& text = self.AsText();
  const Text& separator = bound.RequiredText(0);
  if (separator.empty()) Fail("empty separator");
  runtime.budget().Bytes(text.size());
  const size_t found = kFromRight ? FindLast(text.view(), separator.view(), text.size())
                                  : FindBytes(text.view(), separator.view(), 0);
  if (found == kNowhere) {
    const Value whole(text);
    const Value none{Text()};
    return Value::MakeTuple(runtime, kFromRight ? std::vector<Value>{none, none, whole}
                                                : std::vector<Value>{whole, none, none});
  }
  const size_t behind = found + separator.size();
  Budget& budget = runtime.budget();
  return Value::MakeTuple(
      runtime, {Value(text.Sub(budget, 0, found)), Value(text.Sub(budget, found, behind)),
                Value(text.Sub(budget, behind, text.size()))});
}

Value JoinMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "join", {"iterable"}, 1);
  TextBuilder out(runtime.budget());
  const Next next = Iterate(runtime, *bound.Get(0));
  int64_t count = 0;
  for (Value item; next(item); ++count) {
    runtime.budget().Steps();
    if (!item.is_string()) {
      RequireDefined(item);
      Fail("sequence item ", count, ": expected str instance, ", item.TypeName(), " found");
    }
    if (count > 0) out.Append(self.AsText());
    out.Append(item.AsText());
  }
  return Value(out.Build());
}

Value ReplaceMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "replace", {"old", "new", "count"}, 2);
  return Value(Replace(runtime, self.AsText(), bound.RequiredText(0), bound.RequiredText(1),
                       bound.Int(2, -1)));
}

// The bytes that the optional arguments `start` and `end` (counted in characters) leave of a text.
struct Window {
  size_t begin = 0;
  size_t end = 0;
  bool valid = true;  // false when start lies behind the end
};

Window WindowOf(Runtime& runtime, const Text& text, const BoundArgs& bound) {
  Window window{0, text.size(), true};
  const bool has_start = bound.GetUnlessNone(1) != nullptr;
  const bool has_end = bound.GetUnlessNone(2) != nullptr;
  if (!has_start && !has_end) return window;
  runtime.budget().Bytes(text.size());
  const auto length = static_cast<int64_t>(CountUtf8(text.view()));
  const auto resolve = [length](int64_t at) {
    return at < 0 ? std::max<int64_t>(at + length, 0) : at;
  };
  const int64_t start = has_start ? resolve(bound.Int(1, 0)) : 0;
  const int64_t end = has_end ? std::min(resolve(bound.Int(2, length)), length) : length;
  window.valid = start <= end;
  if (!window.valid) return window;
  window.begin = OffsetOfChar(text.view(), static_cast<size_t>(start));
  window.end = OffsetOfChar(text.view(), static_cast<size_t>(end));
  return window;
}

// Character index of the first or last occurrence, or -1.
int64_t Find(Runtime& runtime, const Text& text, const BoundArgs& bound, bool from_right) {
  const Window window = WindowOf(runtime, text, bound);
  const std::string_view needle = bound.RequiredText(0).view();
  if (!window.valid) return -1;
  runtime.budget().Bytes(text.size());
  const std::string_view searched = text.view().substr(window.begin, window.end - window.begin);
  const size_t found =
      from_right ? FindLast(searched, needle, searched.size()) : FindBytes(searched, needle, 0);
  if (found == kNowhere) return -1;
  return static_cast<int64_t>(CountUtf8(text.view().substr(0, window.begin + found)));
}

template <bool kFromRight, bool kMust>
Value FindMethodOf(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, kMust ? "index" : "find", {"sub", "start", "end"}, 1);
  const int64_t found = Find(runtime, self.AsText(), bound, kFromRight);
  if (kMust && found < 0) Fail("substring not found");
  return Value(found);
}

Value CountMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "count", {"sub", "start", "end"}, 1);
  const Window window = WindowOf(runtime, self.AsText(), bound);
  const std::string_view needle = bound.RequiredText(0).view();
  if (!window.valid) return Value(int64_t{0});
  runtime.budget().Bytes(self.AsText().size());
  const std::string_view searched =
      self.AsText().view().substr(window.begin, window.end - window.begin);
  if (needle.empty()) return Value(static_cast<int64_t>(CountUtf8(searched)) + 1);
  int64_t count = 0;
  for (size_t at = FindBytes(searched, needle, 0); at != kNowhere;
       at = FindBytes(searched, needle, at + needle.size())) {
    ++count;
  }
  return Value(count);
}

template <bool kAtEnd>
Value AffixMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const char* name = kAtEnd ? "endswith" : "startswith";
  const BoundArgs bound(runtime, args, name, {"affix", "start", "end"}, 1);
  const Window window = WindowOf(runtime, self.AsText(), bound);
  const std::string_view text =
      self.AsText().view().substr(window.begin, window.end - window.begin);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string()) {
      RequireDefined(affix);
      Fail(name, " first arg must be str or a tuple of str, not ", affix.TypeName());
    }
    const std::string_view view = affix.AsText().view();
    runtime.budget().Bytes(view.size());
    return window.valid && (kAtEnd ? text.ends_with(view) : text.starts_with(view));
  };
  const Value& affix = *bound.Get(0);
  if (!affix.is_tuple()) return Value(matches(affix));
  return Value(std::any_of(affix.AsItems().begin(), affix.AsItems().end(), matches));
}

template <bool kAtEnd>
Value RemoveAffixMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, kAtEnd ? "removesuffix" : "removeprefix", {"affix"}, 1);
  const std::string_view affix = bound.RequiredText(0).view();
  const Text& text = self.AsText();
  if (kAtEnd) {
    const bool has = text.view().ends_with(affix);
    return Value(text.Sub(runtime.budget(), 0, text.size() - (has ? affix.size() : 0)));
  }
  const bool has = text.view().starts_with(affix);
  return Value(text.Sub(runtime.budget(), has ? affix.size() : 0, text.size()));
}

// ljust adds on the right, and so on.
template <Side kSide>
Value PadMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "this method", {"width", "fillchar"}, 1);
  char32_t fill = ' ';
  if (bound.Get(1) != nullptr) {
    std::string_view given = bound.RequiredText(1).view();
    if (given.empty()) Fail("The fill character must be exactly one character long");
    fill = TakeChar(given);
    if (!given.empty()) Fail("The fill character must be exactly one character long");
  }
  // The fill counts as the text's own kind; a request cannot choose it and be trusted.
  Text text = self.AsText();
  if (bound.Get(1) != nullptr && !bound.Get(1)->AsText().trusted() && text.trusted()) {
    text = Text(std::string(text.view()), false);
  }
  if (kSide == Side::kBoth) return Value(Center(runtime, text, bound.Int(0, 0), fill));
  return Value(Pad(runtime, text, bound.Int(0, 0), fill, kSide));
}

Value ZeroFillMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "zfill", {"width"}, 1);
  const Text& text = self.AsText();
  const bool sign = !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+');
  const Text digits = text.Sub(runtime.budget(), sign ? 1 : 0, text.size());
  TextBuilder out(runtime.budget());
  if (sign) out.AppendSub(text, 0, 1);
  const int64_t width = bound.Int(0, 0);
  out.Append(Pad(runtime, digits, sign && width > 0 ? width - 1 : width, '0', Side::kLeft));
  return Value(out.Build());
}

bool IsAlphanumeric(char32_t c) { return IsAlpha(c) || IsDecimal(c); }
bool IsSuperscript(char32_t c) {
  return c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089);
}
bool IsDigitLike(char32_t c) { return IsDecimal(c) || IsSuperscript(c); }

// True when there is a character and all of them pass.
template <bool (*kPredicate)(char32_t)>
Value AllMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "this method", {});
  std::string_view rest = self.AsText().view();
  runtime.budget().Bytes(rest.size());
  bool all = !rest.empty();
  while (all && !rest.empty()) all = kPredicate(TakeChar(rest));
  return Value(all);
}

Value IsAsciiMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "isascii", {});
  runtime.budget().Bytes(self.AsText().size());
  return Value(IsAscii(self.AsText().view()));
}

template <bool kUpper>
Value IsCaseMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  return Value(FindTest(kUpper ? "upper" : "lower")(runtime, self, args));
}

Value IsTitleMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  const BoundArgs bound(runtime, args, "istitle", {});
  runtime.budget().Bytes(self.AsText().size());
  bool found = false;
  bool inside_word = false;
  for (std::string_view rest = self.AsText().view(); !rest.empty();) {
    const char32_t c = TakeChar(rest);
    const bool upper = IsUpper(c);
    const bool lower = IsLower(c);
    if ((upper && inside_word) || (lower && !inside_word)) return Value(false);
    inside_word = upper || lower;
    found = found || inside_word;
  }
  return Value(found);
}

Value FormatMethod(Runtime& runtime, const Value& self, CallArgs& args) {
  return Value(FormatBraces(runtime, self.AsText(), args));
}

constexpr MethodEntry kMethods[] = {
    {"capitalize", ChangeCaseMethod<Case::kCapitalize>},
    {"casefold", ChangeCaseMethod<Case::kLower>},
    {"center", PadMethod<Side::kBoth>},
    {"count", CountMethod},
    {"endswith", AffixMethod<true>},
    {"expandtabs", ExpandTabsMethod},
    {"find", FindMethodOf<false, false>},
    {"format", FormatMethod},
    {"index", FindMethodOf<false, true>},
    {"isalnum", AllMethod<IsAlphanumeric>},
    {"isalpha", AllMethod<IsAlpha>},
    {"isascii", IsAsciiMethod},
    {"isdecimal", AllMethod<IsDecimal>},
    {"isdigit", AllMethod<IsDigitLike>},
    {"islower", IsCaseMethod<false>},
    {"isnumeric", AllMethod<IsDigitLike>},
    {"isspace", AllMethod<IsSpace>},
    {"istitle", IsTitleMethod},
    {"isupper", IsCaseMethod<true>},
    {"join", JoinMethod},
    {"ljust", PadMethod<Side::kRight>},
    {"lower", ChangeCaseMethod<Case::kLower>},
    {"lstrip", StripMethod<Side::kLeft>},
    {"partition", PartitionMethod<false>},
    {"removeprefix", RemoveAffixMethod<false>},
    {"removesuffix", RemoveAffixMethod<true>},
    {"replace", ReplaceMethod},
    {"rfind", FindMethodOf<true, false>},
    {"rindex", FindMethodOf<true, true>},
    {"rjust", PadMethod<Side::kLeft>},
    {"rpartition", PartitionMethod<true>},
    {"rsplit", RightSplitMethod},
    {"rstrip", StripMethod<Side::kRight>},
    {"split", SplitMethod},
    {"splitlines", SplitLinesMethod},
    {"startswith", AffixMethod<false>},
    {"strip", StripMethod<Side::kBoth>},
    {"swapcase", ChangeCaseMethod<Case::kSwap>},
    {"title", ChangeCaseMethod<Case::kTitle>},
    {"upper", ChangeCaseMethod<Case::kUpper>},
    {"zfill", ZeroFillMethod},
};

}  // namespace

std::span<const MethodEntry> StringMethods() { return kMethods; }

}  // namespace erne::jinja
