#include "chat/jinja/value.h"

#include <algorithm>

#include "chat/jinja/operators.h"
#include "chat/jinja/runtime.h"

namespace erne::jinja {
namespace {

// Below this many items a scan is cheaper than hashing.
constexpr size_t kIndexFrom = 9;

std::shared_ptr<const Sequence> MakeSequence(Runtime& runtime, std::vector<Value> items) {
  auto sequence = std::make_shared<Sequence>();
  runtime.budget().Steps(1 + items.size());
  for (const Value& item : items) sequence->depth = std::max(sequence->depth, item.Depth() + 1);
  runtime.CheckDepth(sequence->depth);
  sequence->items = std::move(items);
  return sequence;
}

}  // namespace

Value Value::Undefined(std::string why) {
  Value value;
  value.data_ = UndefinedInfo{std::make_shared<const std::string>(std::move(why))};
  return value;
}

Value Value::MakeList(Runtime& runtime, std::vector<Value> items) {
  Value value;
  value.data_ = List{MakeSequence(runtime, std::move(items))};
  return value;
}

Value Value::MakeTuple(Runtime& runtime, std::vector<Value> items) {
  Value value;
  value.data_ = Tuple{MakeSequence(runtime, std::move(items))};
  return value;
}

std::string Value::UndefinedReason() const {
  const auto& why = std::get<UndefinedInfo>(data_).why;
  return why ? *why : "the value is undefined";
}

const char* Value::TypeName() const {
  switch (kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return AsObject().TypeName();
  }
  return "?";
}

int Value::Depth() const {
  switch (kind()) {
    case Kind::kList:
    case Kind::kTuple:
      return AsSequence().depth;
    case Kind::kDict:
      return AsDict().depth();
    case Kind::kObject:
      return AsObject().Depth();
    default:
      return 0;
  }
}

size_t Dict::Position(Runtime& runtime, const Value& key, uint64_t hash) const {
  if (index_.empty()) {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (Equal(runtime, items_[i].first, key)) return i;
    }
    return items_.size();
  }
  const auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    runtime.budget().Steps();  // keys chosen to collide
    if (Equal(runtime, items_[it->second].first, key)) return it->second;
  }
  return items_.size();
}

void Dict::Set(Runtime& runtime, Value key, Value value) {
  runtime.budget().Steps();
  const uint64_t hash = Hash(runtime, key);
  depth_ = std::max(depth_, 1 + std::max(key.Depth(), value.Depth()));
  runtime.CheckDepth(depth_);
  const size_t position = Position(runtime, key, hash);
  if (position < items_.size()) {
    items_[position].second = std::move(value);
    return;
  }
  items_.emplace_back(std::move(key), std::move(value));
  if (items_.size() == kIndexFrom) {
    for (size_t i = 0; i < items_.size(); ++i) {
      index_.emplace(Hash(runtime, items_[i].first), static_cast<uint32_t>(i));
    }
  } else if (items_.size() > kIndexFrom) {
    index_.emplace(hash, static_cast<uint32_t>(position));
  }
}

const Value* Dict::Find(Runtime& runtime, const Value& key) const {
  const size_t position = Position(runtime, key, Hash(runtime, key));
  return position < items_.size() ? &items_[position].second : nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  const auto matches = [key](const Value& candidate) {
    return candidate.is_string() && candidate.AsText().view() == key;
  };
  if (index_.empty()) {
    for (const Item& item : items_) {
      if (matches(item.first)) return &item.second;
    }
    return nullptr;
  }
  const auto [begin, end] = index_.equal_range(std::hash<std::string_view>()(key));
  for (auto it = begin; it != end; ++it) {
    if (matches(items_[it->second].first)) return &items_[it->second].second;
  }
  return nullptr;
}

Value Object::Call(Runtime&, CallArgs&) { Fail("'", TypeName(), "' object is not callable"); }

Next Object::Iterate(Runtime&) { Fail("'", TypeName(), "' object is not iterable"); }

void Object::Repr(Runtime&, TextBuilder& out) const {
  out.Append("<", true);
  out.Append(TypeName(), true);
  out.Append(">", true);
}

}  // namespace erne::jinja
