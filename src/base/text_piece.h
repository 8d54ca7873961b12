// A run of prompt text, and whether control tokens spelled in it count.
#pragma once

#include <string>

namespace erne {

// A rendered prompt is a sequence of these: what the template itself wrote is trusted, what came out of a request is not,
// so that a user cannot type a control token.
struct TextPiece {
  std::string text;
  bool trusted = false;

  bool operator==(const TextPiece& other) const = default;
};

}  // namespace erne
