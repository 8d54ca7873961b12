#include "grammar/expression.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"

namespace erne::grammar {
namespace {

constexpr char32_t kLastCodePoint = 0x10FFFF;
constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;

Expr Make(Expression expression) {
  return std::make_shared<const Expression>(std::move(expression));
}

Expr ByteRange(uint8_t first, uint8_t last) {
  ByteSet bytes;
  for (int byte = first; byte <= last; ++byte) bytes.set(static_cast<size_t>(byte));
  return Bytes(bytes);
}

std::string Encoded(char32_t code_point) {
  std::string bytes;
  AppendUtf8(code_point, bytes);
  return bytes;
}

// Appends sequences of byte ranges for code points whose encodings have one length: cuts the range
// until all bytes but the differing one run over everything that may follow it.
void AppendUtf8Range(char32_t first, char32_t last, std::vector<Expr>& out) {
  const std::string low = Encoded(first);
  const std::string high = Encoded(last);
  const auto length = static_cast<int>(low.size());
  for (int i = length - 1; i > 0; --i) {
    const char32_t below = (char32_t{1} << (6 * i)) - 1;  // what the last i bytes hold
    if ((first & ~below) == (last & ~below)) continue;
    if ((first & below) != 0) {
      AppendUtf8Range(first, first | below, out);
      AppendUtf8Range((first | below) + 1, last, out);
      return;
    }
    if ((last & below) != below) {
      AppendUtf8Range(first, (last & ~below) - 1, out);
      AppendUtf8Range(last & ~below, last, out);
      return;
    }
  }
  std::vector<Expr> bytes;
  for (size_t i = 0; i < low.size(); ++i) {
    bytes.push_back(ByteRange(static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])));
  }
  out.push_back(Concat(std::move(bytes)));
}

}  // namespace

Expr Bytes(const ByteSet& bytes) {
  return Make({.kind = Expression::Kind::kBytes, .bytes = bytes});
}

Expr Literal(std::string_view text) {
  std::vector<Expr> parts;
  parts.reserve(text.size());
  for (const char c : text)
    parts.push_back(ByteRange(static_cast<uint8_t>(c), static_cast<uint8_t>(c)));
  return Concat(std::move(parts));
}

Expr Concat(std::vector<Expr> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return Make({.kind = Expression::Kind::kConcat, .parts = std::move(parts)});
}

Expr Choice(std::vector<Expr> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return Make({.kind = Expression::Kind::kChoice, .parts = std::move(parts)});
}

Expr Repeat(Expr part, int64_t min, int64_t max) {
  return Make(
      {.kind = Expression::Kind::kRepeat, .parts = {std::move(part)}, .min = min, .max = max});
}

Expr Optional(Expr part) { return Repeat(std::move(part), 0, 1); }

Expr Call(int32_t rule) { return Make({.kind = Expression::Kind::kRule, .rule = rule}); }

Expr Both(Expr a, Expr b) {
  return Make({.kind = Expression::Kind::kBoth, .parts = {std::move(a), std::move(b)}});
}

Expr Without(Expr a, Expr b) {
  return Make({.kind = Expression::Kind::kWithout, .parts = {std::move(a), std::move(b)}});
}

std::vector<CodePointRange> Normalized(std::span<const CodePointRange> ranges) {
  std::vector<CodePointRange> sorted;
  for (const CodePointRange& range : ranges) {
    if (range.first < kFirstSurrogate) {
      sorted.push_back({range.first, std::min<char32_t>(range.last, kFirstSurrogate - 1)});
    }
    if (range.last > kLastSurrogate) {
      sorted.push_back({std::max<char32_t>(range.first, kLastSurrogate + 1),
                        std::min(range.last, kLastCodePoint)});
    }
  }
  std::erase_if(sorted, [](const CodePointRange& range) { return range.first > range.last; });
  std::sort(sorted.begin(), sorted.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.first < b.first; });
  std::vector<CodePointRange> merged;
  for (const CodePointRange& range : sorted) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

Expr CodePoints(std::span<const CodePointRange> ranges) {
  constexpr std::array<char32_t, 4> kLastOfLength = {0x7F, 0x7FF, 0xFFFF, kLastCodePoint};
  std::vector<Expr> sequences;
  for (const CodePointRange& range : Normalized(ranges)) {
    char32_t first = range.first;
    for (const char32_t last_of_length : kLastOfLength) {
      if (first > last_of_length) continue;
      const char32_t last = std::min(range.last, last_of_length);
      AppendUtf8Range(first, last, sequences);
      if (last == range.last) break;
      first = last + 1;
    }
  }
  return Choice(std::move(sequences));
}

Expr CodePointsBut(std::span<const CodePointRange> ranges) {
  std::vector<CodePointRange> others;
  char32_t next = 0;
  for (const CodePointRange& range : Normalized(ranges)) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) others.push_back({next, kLastCodePoint});
  return CodePoints(others);
}

}  // namespace erne::grammar
