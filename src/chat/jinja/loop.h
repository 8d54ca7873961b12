// The variable `loop` of a for statement.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "chat/jinja/evaluator.h"

namespace erne::jinja {

// Draws its items one by one, at most one ahead (for `last` and `nextitem`), unless its length is
// asked for and can only be counted.
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  // `length` where the iterable has one. `recurse` is the statement when it is marked recursive,
  // else null.
  Loop(Evaluator& evaluator, const ForStatement* recurse, std::shared_ptr<Scope> outer, Next next,
       std::optional<int64_t> length, int depth)
      : evaluator_(evaluator),
        recurse_(recurse),
        outer_(std::move(outer)),
        next_(std::move(next)),
        length_(length),
        depth_(depth) {}

  // Moves on to the next item; false at the end.
  bool Advance();
  const Value& current() const { return current_; }

  const char* TypeName() const override { return "LoopContext"; }
  std::optional<Value> Attribute(Runtime& runtime, std::string_view name) override;
  std::optional<int64_t> Length(Runtime& runtime) override;
  bool callable() const override { return true; }
  Value Call(Runtime& runtime, CallArgs& args) override;

 private:
  class Method;

  bool Peek();
  Value Cycle(const CallArgs& args) const;
  Value Changed(Runtime& runtime, const CallArgs& args);

  Evaluator& evaluator_;
  const ForStatement* recurse_;
  std::shared_ptr<Scope> outer_;
  Next next_;
  std::optional<int64_t> length_;
  int depth_;  // from 0
  int64_t index_ = -1;
  Value before_;
  Value current_;
  std::vector<Value> ahead_;  // drawn and not yet reached, in order
  size_t ahead_begin_ = 0;
  std::optional<std::vector<Value>> last_changed_;
};

}  // namespace erne::jinja
