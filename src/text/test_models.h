// Small tokenizer files made by hand, and where the real ones lie.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_set.h"

namespace erne {

// Files in memory; the texts live as long as the set.
class TestFiles : public FileSet {
 public:
  explicit TestFiles(std::map<std::string, std::string, std::less<>> files)
      : files_(std::move(files)) {}
  const std::string& path() const override { return path_; }
  bool Has(std::string_view name) const override { return files_.find(name) != files_.end(); }
  Result<std::span<const std::byte>> Map(std::string_view name) const override {
    const auto found = files_.find(name);
    if (found == files_.end()) return NotFound(std::string(name));
    return std::as_bytes(std::span(found->second.data(), found->second.size()));
  }

 private:
  std::string path_ = "memory";
  std::map<std::string, std::string, std::less<>> files_;
};

struct TestPiece {
  std::string text;
  float score = 0;
  int type = 1;  // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
};

inline std::string ProtoVarint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}
inline std::string ProtoNumber(int field, uint64_t value) {
  return ProtoVarint(field << 3) + ProtoVarint(value);
}
inline std::string ProtoBytes(int field, std::string_view bytes) {
  return ProtoVarint(field << 3 | 2) + ProtoVarint(bytes.size()) + std::string(bytes);
}

// A tokenizer.model in the making, with the settings of ERNIE's.
struct TestSentencePiece {
  std::vector<TestPiece> pieces;
  int model_type = 2;
  bool byte_fallback = false;
  std::string normalizer = "identity";
  std::string charsmap;
  bool dummy_prefix = false;
  bool remove_extra_spaces = false;

  std::string Serialize() const {
    std::string out;
    for (const TestPiece& piece : pieces) {
      std::string score(4, '\0');
      std::memcpy(score.data(), &piece.score, 4);
      std::string message = ProtoBytes(1, piece.text) + ProtoVarint(2 << 3 | 5) + score;
      if (piece.type != 1) message += ProtoNumber(3, piece.type);
      out += ProtoBytes(1, message);
    }
    out += ProtoBytes(2, ProtoNumber(3, model_type) + ProtoNumber(35, byte_fallback ? 1 : 0));
    std::string normalizer_spec = ProtoBytes(1, normalizer);
    if (!charsmap.empty()) normalizer_spec += ProtoBytes(2, charsmap);
    normalizer_spec +=
        ProtoNumber(3, dummy_prefix ? 1 : 0) + ProtoNumber(4, remove_extra_spaces ? 1 : 0);
    return out + ProtoBytes(3, normalizer_spec);
  }
};

// Outside test data: "" when it is not there.
inline std::string SharedFolder(const std::string& name) {
  const char* shared = std::getenv("ERNE_SHARED");
  const char* source = std::getenv("ERNE_SOURCE");
  const std::string folder =
      (shared != nullptr ? std::string(shared)
                         : std::string(source != nullptr ? source : ".") + "/../shared") +
      "/" + name;
  return std::filesystem::is_directory(folder) ? folder : "";
}

inline std::string SourceFolder(const std::string& name) {
  const char* source = std::getenv("ERNE_SOURCE");
  return std::string(source != nullptr ? source : ".") + "/" + name;
}

}  // namespace erne
