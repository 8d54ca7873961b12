#include "model/config_reader.h"

#include <cmath>

#include "base/strings.h"

namespace erne {

bool ConfigReader::Has(std::string_view key) const {
  const Json* value = object_.Find(key);
  return value != nullptr && !value->is_null();
}

void ConfigReader::Fail(std::string_view key, std::string_view what) {
  if (!status_.ok()) return;
  const std::string field = prefix_ + std::string(key);
  status_ = InvalidArgument(StrCat("`", field, "` ", what), field);
}

void ConfigReader::Adopt(const Status& status) {
  if (status_.ok()) status_ = status;
}

int64_t ConfigReader::Int(std::string_view key, int64_t min, int64_t max) {
  if (!Has(key)) {
    Fail(key, "is missing");
    return min;
  }
  return IntOr(key, min, min, max);
}

int64_t ConfigReader::IntOr(std::string_view key, int64_t fallback, int64_t min, int64_t max) {
  if (!Has(key)) return fallback;
  const Json& value = *object_.Find(key);
  if (!value.is_int()) {
    Fail(key, StrCat("must be an integer, not ", value.KindName()));
    return fallback;
  }
  if (value.AsInt() < min || value.AsInt() > max) {
    Fail(key, StrCat("is ", value.AsInt(), ", must be from ", min, " to ", max));
    return fallback;
  }
  return value.AsInt();
}

double ConfigReader::Number(std::string_view key, double min, double max) {
  if (!Has(key)) {
    Fail(key, "is missing");
    return min;
  }
  return NumberOr(key, min, min, max);
}

double ConfigReader::NumberOr(std::string_view key, double fallback, double min, double max) {
  if (!Has(key)) return fallback;
  const Json& value = *object_.Find(key);
  if (!value.is_number()) {
    Fail(key, StrCat("must be a number, not ", value.KindName()));
    return fallback;
  }
  if (!(value.AsDouble() >= min && value.AsDouble() <= max)) {
    Fail(key, StrCat("is ", value.AsDouble(), ", must be from ", min, " to ", max));
    return fallback;
  }
  return value.AsDouble();
}

bool ConfigReader::FlagOr(std::string_view key, bool fallback) {
  if (!Has(key)) return fallback;
  const Json& value = *object_.Find(key);
  if (value.is_bool()) return value.AsBool();
  Fail(key, StrCat("must be true or false, not ", value.KindName()));
  return fallback;
}

std::string ConfigReader::TextOr(std::string_view key, std::string_view fallback) {
  if (!Has(key)) return std::string(fallback);
  const Json& value = *object_.Find(key);
  if (value.is_string()) return value.AsString().substr(0, 100);  // it ends up in messages
  Fail(key, StrCat("must be a string, not ", value.KindName()));
  return std::string(fallback);
}

}  // namespace erne
