#include "text/nfc.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/unicode/tables.h"
#include "base/utf8.h"

namespace erne {
namespace {

using unicode::Decomposition;
using unicode::kDecompositions;

uint8_t CombiningClass(char32_t c) {
  if (c < 0x300) return 0;  // the first combining mark
  const auto* range = unicode::FindRange(unicode::kCombining, c);
  return range != nullptr ? range->combining_class : 0;
}

// Hangul syllables are composed by arithmetic (The Unicode Standard, section 3.12).
constexpr char32_t kSyllable = 0xAC00;
constexpr char32_t kLead = 0x1100;
constexpr char32_t kVowel = 0x1161;
constexpr char32_t kTrail = 0x11A7;  // one before the first
constexpr char32_t kLeads = 19;
constexpr char32_t kVowels = 21;
constexpr char32_t kTrails = 28;

void Decompose(char32_t c, std::vector<char32_t>& out) {
  if (c >= kSyllable && c < kSyllable + kLeads * kVowels * kTrails) {
    const char32_t index = c - kSyllable;
    out.push_back(kLead + index / (kVowels * kTrails));
    out.push_back(kVowel + index / kTrails % kVowels);
    if (index % kTrails != 0) out.push_back(kTrail + index % kTrails);
    return;
  }
  const auto entry =
      std::lower_bound(kDecompositions.begin(), kDecompositions.end(), c,
                       [](const Decomposition& d, char32_t value) { return d.composed < value; });
  if (entry == kDecompositions.end() || entry->composed != c) {
    out.push_back(c);
    return;
  }
  Decompose(entry->first, out);  // a few levels deep
  if (entry->second != 0) Decompose(entry->second, out);
}

// The character that `first` and `second` make together, or 0.
char32_t Compose(char32_t first, char32_t second) {
  if (first >= kLead && first < kLead + kLeads && second >= kVowel && second < kVowel + kVowels) {
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTrails;
  }
  if (first >= kSyllable && first < kSyllable + kLeads * kVowels * kTrails &&
      (first - kSyllable) % kTrails == 0 && second > kTrail && second < kTrail + kTrails) {
    return first + (second - kTrail);
  }
  static const auto& pairs = *[] {
    auto* map = new std::unordered_map<uint64_t, char32_t>;
    for (const Decomposition& d : kDecompositions) {
      if (d.composes) map->emplace(static_cast<uint64_t>(d.first) << 32 | d.second, d.composed);
    }
    return map;
  }();
  const auto found = pairs.find(static_cast<uint64_t>(first) << 32 | second);
  return found != pairs.end() ? found->second : 0;
}

// Sorts each run of combining marks by class, those of one class in the order they came.
void OrderMarks(std::vector<char32_t>& characters) {
  for (auto begin = characters.begin(); begin != characters.end();) {
    if (CombiningClass(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, characters.end(), [](char32_t c) { return CombiningClass(c) == 0; });
    std::stable_sort(begin, end,
                     [](char32_t a, char32_t b) { return CombiningClass(a) < CombiningClass(b); });
    begin = end;
  }
}

}  // namespace

std::string ComposeNfc(std::string_view text) {
  std::vector<char32_t> characters;
  bool changes = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = DecodeUtf8(text.substr(at));
    // Nothing below U+0300 decomposes and composes differently, nor stands second in a pair.
    changes = changes || c.code_point >= 0x300;
    Decompose(c.length > 0 ? c.code_point : 0xFFFD, characters);
    at += std::max(1, c.length);
  }
  if (!changes) return std::string(text);
  OrderMarks(characters);

  std::string out;
  std::vector<char32_t> composed;
  size_t starter = SIZE_MAX;  // index in `composed` of the last character of class 0
  for (const char32_t c : characters) {
    const uint8_t combining = CombiningClass(c);
    // A mark is blocked from the starter by one of the same or a higher class between them.
    const bool adjacent = starter != SIZE_MAX && starter + 1 == composed.size();
    const bool blocked =
        !adjacent && starter != SIZE_MAX && CombiningClass(composed.back()) >= combining;
    if (starter != SIZE_MAX && !blocked) {
      if (const char32_t whole = Compose(composed[starter], c); whole != 0) {
        composed[starter] = whole;
        continue;
      }
    }
    if (combining == 0) starter = composed.size();
    composed.push_back(c);
  }
  for (const char32_t c : composed) AppendUtf8(c, out);
  return out;
}

}  // namespace erne
