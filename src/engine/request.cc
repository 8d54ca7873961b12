#include "engine/request.h"

#include <iterator>
#include <utility>

namespace erne {

TokenStream::TokenStream(std::function<void()> wake) : wake_(std::move(wake)) {
  events_.reserve(8);  // a consumer is seldom further behind
}

bool TokenStream::Take(std::vector<TokenEvent>& out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (events_.empty()) return false;
  out.insert(out.end(), std::make_move_iterator(events_.begin()),
             std::make_move_iterator(events_.end()));
  events_.clear();  // keeps its memory
  return true;
}

void TokenStream::WaitAndTake(std::vector<TokenEvent>& out) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    ready_.wait(lock, [this] { return !events_.empty() || finished_ || cancelled(); });
  }
  Take(out);
}

void TokenStream::Cancel(std::optional<FinishReason> as) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (cancelled()) return;
  cancelled_as_ = as;
  cancelled_.store(true, std::memory_order_relaxed);
  events_.clear();
  ready_.notify_all();
}

std::optional<FinishReason> TokenStream::cancelled_as() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cancelled_as_;
}

void TokenStream::Push(TokenEvent event) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (cancelled()) return;
    finished_ = event.finish.has_value();
    events_.push_back(std::move(event));
    ready_.notify_all();
  }
  if (wake_) wake_();
}

}  // namespace erne
