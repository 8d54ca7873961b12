#include "chat/jinja/objects.h"

#include <vector>

#include "chat/jinja/operators.h"

namespace erne::jinja {

std::optional<Value> Namespace::Attribute(Runtime&, std::string_view name) {
  for (const auto& [key, value] : attributes_) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::optional<Value> Namespace::Item(Runtime& runtime, const Value& key) {
  if (!key.is_string()) return std::nullopt;
  return Attribute(runtime, key.AsText().view());
}

void Namespace::Set(Runtime& runtime, std::string_view name, Value value) {
  runtime.budget().Steps();
  for (auto& [key, old] : attributes_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  attributes_.emplace_back(name, std::move(value));
}

void Namespace::Repr(Runtime& runtime, TextBuilder& out) const {
  const Runtime::Level level(runtime);  // a namespace may hold itself
  out.Append("<Namespace {", true);
  const char* separator = "";
  for (const auto& [key, value] : attributes_) {
    out.Append(separator, true);
    AppendRepr(runtime, Value(Text(key, false)), out);  // namespace(**message) takes any name
    out.Append(": ", true);
    AppendRepr(runtime, value, out);
    separator = ", ";
  }
  out.Append("}>", true);
}

Next Range::Iterate(Runtime&) {
  return [start = start_, step = step_, left = length_](Value& out) mutable {
    if (left == 0) return false;
    out = Value(start);
    if (--left > 0) start += step;
    return true;
  };
}

std::shared_ptr<Range> Range::Sub(int64_t begin, int64_t stride, int64_t count) const {
  // Unsigned, because the end of the last step may lie outside of int64_t; only repr shows it.
  const uint64_t step = static_cast<uint64_t>(step_) * static_cast<uint64_t>(stride);
  const uint64_t start =
      static_cast<uint64_t>(start_) + static_cast<uint64_t>(begin) * static_cast<uint64_t>(step_);
  return std::make_shared<Range>(static_cast<int64_t>(start),
                                 static_cast<int64_t>(start + step * static_cast<uint64_t>(count)),
                                 static_cast<int64_t>(step), count);
}

std::optional<Value> Range::Item(Runtime&, const Value& key) {
  if (!key.is_integral()) return std::nullopt;
  int64_t index = key.AsInt();
  if (index < 0) index += length_;
  if (index < 0 || index >= length_) return std::nullopt;
  return Value(At(index));
}

bool Range::Equals(Runtime&, const Object& other) const {
  const auto* range = dynamic_cast<const Range*>(&other);
  if (range == nullptr || range->length_ != length_) return false;
  if (length_ == 0) return true;
  return range->start_ == start_ && (length_ == 1 || range->step_ == step_);
}

void Range::Repr(Runtime&, TextBuilder& out) const {
  out.Append(StrCat("range(", start_, ", ", stop_), true);
  if (step_ != 1) out.Append(StrCat(", ", step_), true);
  out.Append(")", true);
}

const char* DictView::TypeName() const {
  switch (part_) {
    case Part::kKeys:
      return "dict_keys";
    case Part::kValues:
      return "dict_values";
    case Part::kItems:
      return "dict_items";
  }
  return "?";
}

Next DictView::Iterate(Runtime& runtime) {
  return [&runtime, dict = dict_, part = part_, index = size_t{0}](Value& out) mutable {
    if (index >= dict->items().size()) return false;
    const Dict::Item& item = dict->items()[index++];
    switch (part) {
      case Part::kKeys:
        out = item.first;
        break;
      case Part::kValues:
        out = item.second;
        break;
      case Part::kItems:
        out = Value::MakeTuple(runtime, {item.first, item.second});
        break;
    }
    return true;
  };
}

void DictView::Repr(Runtime& runtime, TextBuilder& out) const {
  out.Append(TypeName(), true);
  out.Append("(", true);
  std::vector<Value> items;
  const Next next = DictView(dict_, part_).Iterate(runtime);
  for (Value item; next(item);) items.push_back(item);
  AppendRepr(runtime, Value::MakeList(runtime, std::move(items)), out);
  out.Append(")", true);
}

}  // namespace erne::jinja
