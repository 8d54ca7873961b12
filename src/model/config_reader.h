// Checked numbers out of a hostile config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace erne {

// The largest number that any field may hold. Products of two such numbers still fit in 63 bits.
inline constexpr int64_t kMaxConfigNumber = int64_t{1} << 31;

// Reads fields of one JSON object. The first fault is kept and later reads return harmless values,
// so that a caller reads all of its fields in a row and checks status() once. Messages and
// Status::param name the field. The object must outlive the reader. Not thread-safe.
class ConfigReader {
 public:
  // `prefix` is put before field names in messages: "rope_parameters.".
  explicit ConfigReader(const Json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  const Json& object() const { return object_; }
  bool Has(std::string_view key) const;  // present and not null

  // An integer in [min, max]. The first form requires the field, the second has a value for when it
  // is absent or null.
  int64_t Int(std::string_view key, int64_t min, int64_t max);
  int64_t IntOr(std::string_view key, int64_t fallback, int64_t min, int64_t max);
  // At least 1.
  int64_t Count(std::string_view key, int64_t max = kMaxConfigNumber) { return Int(key, 1, max); }
  int64_t CountOr(std::string_view key, int64_t fallback, int64_t max = kMaxConfigNumber) {
    return IntOr(key, fallback, 1, max);
  }
  // A finite number in [min, max].
  double Number(std::string_view key, double min, double max);
  double NumberOr(std::string_view key, double fallback, double min, double max);
  bool FlagOr(std::string_view key, bool fallback);
  std::string TextOr(std::string_view key, std::string_view fallback);

  // Records a fault of this field unless there is one already.
  void Fail(std::string_view key, std::string_view what);
  // The fault of a reader of a part.
  void Adopt(const Status& status);

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }

 private:
  const Json& object_;
  std::string prefix_;
  Status status_;
};

}  // namespace erne
