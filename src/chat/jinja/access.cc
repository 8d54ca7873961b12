// value.name, value[key], value[a:b:c].
#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/objects.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/unicode.h"

namespace erne::jinja {
namespace {

// As jinja2.utils.object_type_repr.
std::string Describe(const Value& value) {
  if (value.is_none()) return "None";
  return StrCat(value.TypeName(), " object");
}

Value NoAttribute(const Value& value, std::string_view name) {
  return Value::Undefined(StrCat("'", Describe(value), "' has no attribute '", name, "'"));
}

Value NoElement(Runtime& runtime, const Value& value, const Value& key) {
  if (key.is_string()) return NoAttribute(value, key.AsText().view());
  return Value::Undefined(StrCat(Describe(value), " has no element ", Repr(runtime, key).view()));
}

// The attribute as Python's getattr finds it, or nothing.
std::optional<Value> PythonAttribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (IsUnsafeAttribute(value.kind(), name)) {
    return Value::Undefined(
        StrCat("access to attribute '", name, "' of '", value.TypeName(), "' object is unsafe."));
  }
  if (value.is_object()) return value.AsObject().Attribute(runtime, name);
  if (const MethodFunction method = FindMethod(value.kind(), name)) {
    runtime.CheckDepth(value.Depth() + 1);
    return Value(std::static_pointer_cast<Object>(std::make_shared<BoundMethod>(value, method)));
  }
  return std::nullopt;
}

std::optional<Value> CharAt(Runtime& runtime, const Text& text, int64_t index) {
  const std::string_view view = text.view();
  runtime.budget().Bytes(view.size());
  if (index < 0) index += static_cast<int64_t>(CountUtf8(view));
  if (index < 0) return std::nullopt;
  const size_t begin = OffsetOfChar(view, static_cast<size_t>(index));
  if (begin >= view.size()) return std::nullopt;
  std::string_view rest = view.substr(begin);
  TakeChar(rest);
  return Value(text.Sub(runtime.budget(), begin, view.size() - rest.size()));
}

std::optional<Value> PythonItem(Runtime& runtime, const Value& value, const Value& key) {
  switch (value.kind()) {
    case Kind::kString:
      return key.is_integral() ? CharAt(runtime, value.AsText(), key.AsInt()) : std::nullopt;
    case Kind::kList:
    case Kind::kTuple: {
      if (!key.is_integral()) return std::nullopt;
      const std::vector<Value>& items = value.AsItems();
      int64_t index = key.AsInt();
      if (index < 0) index += static_cast<int64_t>(items.size());
      if (index < 0 || index >= static_cast<int64_t>(items.size())) return std::nullopt;
      return items[static_cast<size_t>(index)];
    }
    case Kind::kDict: {
      if (key.is_list() || key.is_dict()) return std::nullopt;  // unhashable
      const Value* found = value.AsDict().Find(runtime, key);
      return found == nullptr ? std::nullopt : std::optional<Value>(*found);
    }
    case Kind::kObject:
      return value.AsObject().Item(runtime, key);
    default:
      return std::nullopt;
  }
}

// Which items a slice takes: `count` of them, `begin`, `begin + step`, ...
struct SliceRange {
  int64_t begin = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// Python's slice.indices (CPython, PySlice_AdjustIndices).
SliceRange ResolveSlice(const Value& start, const Value& stop, const Value& step, int64_t length) {
  SliceRange range;
  range.step = step.is_none() ? 1 : step.AsInt();
  if (range.step == 0) Fail("slice step cannot be zero");
  range.step = std::max(range.step, -std::numeric_limits<int64_t>::max());
  const int64_t lowest = range.step < 0 ? -1 : 0;
  const int64_t highest = range.step < 0 ? length - 1 : length;
  const auto clip = [&](const Value& bound, int64_t fallback) {
    if (bound.is_none()) return fallback;
    int64_t index = bound.AsInt();
    if (index < 0) index += length;
    return std::clamp(index, lowest, std::max(lowest, highest));
  };
  range.begin = clip(start, range.step < 0 ? highest : lowest);
  const int64_t end = clip(stop, range.step < 0 ? lowest : highest);
  if (range.step > 0 && range.begin < end) range.count = (end - range.begin - 1) / range.step + 1;
  if (range.step < 0 && end < range.begin) {
    range.count = (range.begin - end - 1) / -range.step + 1;
  }
  return range;
}

Value SliceText(Runtime& runtime, const Text& text, const SliceRange& range) {
  const std::string_view view = text.view();
  const auto begin = static_cast<size_t>(range.begin);
  const auto count = static_cast<size_t>(range.count);
  if (count == 0) return Value(Text());
  if (range.step == 1) {
    const size_t from = OffsetOfChar(view, begin);
    const size_t to = from + OffsetOfChar(view.substr(from), count);
    return Value(text.Sub(runtime.budget(), from, to));
  }
  // Offsets of the characters from the lowest one on.
  runtime.budget().Steps(view.size() / 8 + 1);
  std::vector<size_t> offsets;
  for (size_t i = 0; i < view.size(); ++i) {
    if ((static_cast<uint8_t>(view[i]) & 0xC0) != 0x80) offsets.push_back(i);
  }
  offsets.push_back(view.size());
  TextBuilder out(runtime.budget());
  int64_t index = range.begin;
  for (size_t i = 0; i < count; ++i) {
    out.AppendSub(text, offsets[static_cast<size_t>(index)],
                  offsets[static_cast<size_t>(index) + 1]);
    if (i + 1 < count) index += range.step;
  }
  return Value(out.Build());
}

Value SliceSequence(Runtime& runtime, const Value& value, const SliceRange& range) {
  runtime.budget().Steps(static_cast<size_t>(range.count));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(range.count));
  int64_t index = range.begin;
  for (int64_t i = 0; i < range.count; ++i) {
    items.push_back(value.AsItems()[static_cast<size_t>(index)]);
    if (i + 1 < range.count) index += range.step;
  }
  return value.is_list() ? Value::MakeList(runtime, std::move(items))
                         : Value::MakeTuple(runtime, std::move(items));
}

}  // namespace

Value GetAttribute(Runtime& runtime, const Value& value, std::string_view name) {
  RequireDefined(value);
  if (std::optional<Value> found = PythonAttribute(runtime, value, name)) return *std::move(found);
  if (value.is_dict()) {
    const Value* found = value.AsDict().Find(name);
    if (found != nullptr) return *found;
  }
  return NoAttribute(value, name);
}

Value GetItem(Runtime& runtime, const Value& value, const Value& key) {
  RequireDefined(value);
  if (std::optional<Value> found = PythonItem(runtime, value, key)) return *std::move(found);
  if (key.is_string()) {
    const std::string_view name = key.AsText().view();
    if (std::optional<Value> found = PythonAttribute(runtime, value, name))
      return *std::move(found);
  }
  return NoElement(runtime, value, key);
}

Value Slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
            const Value& step) {
  RequireDefined(value);
  const auto is_bound = [](const Value& bound) { return bound.is_none() || bound.is_integral(); };
  std::shared_ptr<Range> range;
  if (value.is_object()) range = std::dynamic_pointer_cast<Range>(value.SharedObject());
  if (!value.is_string() && !value.is_sequence() && range == nullptr) {
    Fail("'", value.TypeName(), "' object cannot be sliced");
  }
  if (!is_bound(start) || !is_bound(stop) || !is_bound(step)) {
    Fail("slice indices must be integers or None");
  }
  const SliceRange indices = ResolveSlice(start, stop, step, Length(runtime, value));
  if (value.is_string()) return SliceText(runtime, value.AsText(), indices);
  if (value.is_sequence()) return SliceSequence(runtime, value, indices);
  return Value(
      std::static_pointer_cast<Object>(range->Sub(indices.begin, indices.step, indices.count)));
}

}  // namespace erne::jinja
