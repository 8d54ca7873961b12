#include "cli/token_ids.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/strings.h"

namespace erne {

Result<std::vector<int32_t>> ParseTokenIds(const std::string& flag, std::string_view text,
                                           int64_t vocab_size) {
  std::string_view inner = Strip(text);
  if (inner.size() >= 2 && inner.front() == '[' && inner.back() == ']') {
    inner = inner.substr(1, inner.size() - 2);
  }
  std::string spaced(inner);
  std::replace(spaced.begin(), spaced.end(), ',', ' ');
  std::istringstream words(spaced);
  std::vector<int32_t> ids;
  std::string word;
  while (words >> word) {
    const std::optional<int64_t> id = ParseNumber<int64_t>(word);
    if (!id) return InvalidArgument(StrCat(flag, ": '", word, "' is not a token id"), flag);
    if (*id < 0 || *id >= vocab_size) {
      return InvalidArgument(
          StrCat(flag, ": token id ", *id, " is outside the vocabulary of ", vocab_size), flag);
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  if (ids.empty()) return InvalidArgument(StrCat(flag, ": the list of token ids is empty"), flag);
  return ids;
}

std::string FormatTokenIds(std::span<const int32_t> ids) {
  std::string out = "[";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(ids[i]);
  }
  return out + "]";
}

}  // namespace erne
