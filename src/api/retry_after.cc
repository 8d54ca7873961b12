#include "api/retry_after.h"

#include <algorithm>
#include <cmath>

namespace erne {
namespace {

// Requests of one batch end together, so the mean is over more than a batch.
constexpr int64_t kEndsInTheMean = 64;

}  // namespace

void RetryEstimate::OnEnd(double arrived, double ended) {
  const std::lock_guard lock(mutex_);
  // Before its arrival it had nothing to do with the time between ends: the engine may have slept.
  const double interval = std::max(0.0, ended - std::max(last_end_, arrived));
  ends_ = std::min(ends_ + 1, kEndsInTheMean);
  interval_ += (interval - interval_) / static_cast<double>(ends_);
  last_end_ = ended;
  line_ = std::max(0.0, line_ - 1);
}

int64_t RetryEstimate::OnRefused() {
  const std::lock_guard lock(mutex_);
  line_ += 1;
  const double wait = line_ * interval_;
  // Who is sent away for longer than this does not come back: the line ends there.
  if (wait > kMostSeconds) line_ = kMostSeconds / interval_;
  return std::clamp(static_cast<int64_t>(std::ceil(std::min<double>(wait, kMostSeconds))),
                    kLeastSeconds, kMostSeconds);
}

}  // namespace erne
