#include "chat/jinja/arguments.h"

#include <algorithm>

namespace erne::jinja {

BoundArgs::BoundArgs(Runtime& runtime, const CallArgs& args, std::string_view function,
                     std::initializer_list<std::string_view> names, size_t required)
    : runtime_(runtime), function_(function), names_(names), values_(names.size(), nullptr) {
  if (args.positional.size() > names_.size()) {
    Fail(function, "() takes at most ", names_.size(), " argument(s) (", args.positional.size(),
         " given)");
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name_text, value] : args.named) {
    const std::string_view name = name_text.view();
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) {
      Fail(function, "() got an unexpected keyword argument '", name, "'");
    }
    const Value*& slot = values_[static_cast<size_t>(found - names_.begin())];
    if (slot != nullptr) Fail(function, "() got multiple values for argument '", name, "'");
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) Fail(function, "() is missing its argument '", names_[i], "'");
  }
}

int64_t BoundArgs::Int(size_t index, int64_t fallback) const {
  if (values_[index] == nullptr) return fallback;
  return ToIndex(*values_[index], StrCat(function_, "() argument '", names_[index], "'").c_str());
}

const Text& BoundArgs::RequiredText(size_t index) const {
  const Value& value = *values_[index];
  if (!value.is_string()) {
    RequireDefined(value);
    Fail(function_, "() argument '", names_[index], "' must be a string, not '", value.TypeName(),
         "'");
  }
  return value.AsText();
}

}  // namespace erne::jinja
