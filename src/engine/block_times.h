// Times the life of KV blocks for an observer. The scheduler, which has no clock, says what happens
// to them.
#pragma once

#include <vector>

#include "engine/observer.h"
#include "engine/scheduler.h"

namespace erne {

class BlockTimes : public BlockListener {
 public:
  // observer: not null, outlives this.
  BlockTimes(int64_t num_blocks, EngineObserver* observer);

  // What follows happens at this time; seconds of the steady clock.
  void SetNow(double now) { now_ = now; }

  void OnTaken(BlockId block) override;
  void OnReused(BlockId block) override;
  void OnReleased(BlockId block) override;
  void OnEvicted(BlockId block) override;

 private:
  struct Times {
    double taken = 0;
    double released = 0;  // 0: in use
  };
  EngineObserver* const observer_;
  std::vector<Times> times_;  // [num_blocks]
  double now_ = 0;
};

}  // namespace erne
