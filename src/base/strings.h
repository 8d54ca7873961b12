// Small string helpers that the standard library lacks in C++20 with g++ 12 (no <format>).
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace erne {

// The arguments, streamed one after the other: StrCat("layer ", 3, " is missing").
template <typename... Args>
std::string StrCat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

// The parts joined with `separator`: Join({"a", "b"}, ", ") is "a, b". Works for any streamable elements.
template <typename Container>
std::string Join(const Container& parts, std::string_view separator) {
  std::ostringstream out;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) out << separator;
    out << part;
    first = false;
  }
  return out.str();
}

// The pieces of `text` between separators; an empty text has one empty piece.
std::vector<std::string> Split(std::string_view text, char separator);

// ASCII white space removed from both ends.
std::string_view Strip(std::string_view text);

// ASCII letters lowered; other bytes kept.
std::string ToLowerAscii(std::string_view text);

// The whole of `text` as a number, or nothing: no white space, no sign +, no trailing characters, neither infinity nor
// NaN.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

// Number of single-character edits (insert, delete, replace) from `a` to `b`.
int EditDistance(std::string_view a, std::string_view b);

// The candidate with the smallest edit distance to `word`, or "" when none is within about a third of its length.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

// (2.25, 1) -> "2.2": with so many digits after the point.
std::string FormatFixed(double value, int digits);

// 1536 -> "1.5 KiB".
std::string FormatBytes(uint64_t bytes);

}  // namespace erne
