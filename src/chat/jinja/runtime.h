// What all of one rendering shares: its budget, its depth, its clock, the objects that live as long
// as it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/budget.h"
#include "chat/jinja/value.h"

namespace erne::jinja {

// A value with attributes that the template may set. May refer to itself, which is why the Runtime
// owns it.
class Namespace : public Object {
 public:
  const char* TypeName() const override { return "Namespace"; }
  std::optional<Value> Attribute(Runtime&, std::string_view name) override;
  std::optional<Value> Item(Runtime& runtime, const Value& key) override;
  void Repr(Runtime& runtime, TextBuilder& out) const override;

  void Set(Runtime& runtime, std::string_view name, Value value);
  void Clear() { attributes_.clear(); }

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

class Runtime {
 public:
  Runtime(const TemplateLimits& limits, int64_t local_now)
      : budget_(limits), local_now_(local_now) {}
  ~Runtime() {
    for (const auto& one : namespaces_) one->Clear();  // breaks cycles
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Budget& budget() { return budget_; }
  int64_t local_now() const {
    return local_now_;
  }  // seconds since 1970-01-01 00:00 of the local clock

  std::shared_ptr<Namespace> NewNamespace() {
    budget_.Steps();
    namespaces_.push_back(std::make_shared<Namespace>());
    return namespaces_.back();
  }

  // Fails when a container of this depth must not be built.
  void CheckDepth(int depth) const {
    if (depth > budget_.limits().max_depth) {
      Fail("values are nested deeper than ", budget_.limits().max_depth);
    }
  }

  // One level of native recursion. A node of the template takes several, and max_depth speaks of
  // what its author sees: nested calls of macros. Python's own limit (1000 frames) comes to about
  // 250 such calls.
  static constexpr int kLevelsPerCall = 10;
  class Level {
   public:
    explicit Level(Runtime& runtime) : runtime_(runtime) {
      const int limit = runtime.budget_.limits().max_depth;
      if (++runtime.levels_ > limit * kLevelsPerCall) {
        --runtime.levels_;
        Fail("expressions, blocks and macro calls are nested too deep (max_depth ", limit, ")");
      }
    }
    ~Level() { --runtime_.levels_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Runtime& runtime_;
  };

 private:
  Budget budget_;
  int64_t local_now_;
  int levels_ = 0;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace erne::jinja
