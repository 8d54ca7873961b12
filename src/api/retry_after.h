// How long a client that found the queue full should stay away.
#pragma once

#include <cstdint>
#include <mutex>

namespace erne {

// Each client that is refused gets a place in an imaginary line behind the queue, and each request
// that ends moves the line on: so the clients of a burst come back one after the other, as places
// become free, and not all at once. Thread-safe. Times are seconds of the steady clock.
class RetryEstimate {
 public:
  static constexpr int64_t kLeastSeconds = 1;
  static constexpr int64_t kMostSeconds = 60;

  // A request ended that was inside since `arrived`.
  void OnEnd(double arrived, double ended);
  // Seconds for the client that is refused now.
  int64_t OnRefused();

 private:
  std::mutex mutex_;  // guards all below
  double last_end_ = 0;
  // Between two ends, while somebody was inside: the mean, where older ones count less and less.
  // Before the first end it is a guess.
  double interval_ = 0.1;
  int64_t ends_ = 0;  // in the mean
  double line_ = 0;
};

}  // namespace erne
