#include "engine/block_times.h"

namespace erne {

BlockTimes::BlockTimes(int64_t num_blocks, EngineObserver* observer)
    : observer_(observer), times_(static_cast<size_t>(num_blocks)) {}

void BlockTimes::OnTaken(BlockId block) {
  times_[static_cast<size_t>(block)] = {.taken = now_, .released = 0};
}

// A block that is in use when it is shared has not been idle.
void BlockTimes::OnReused(BlockId block) {
  Times& times = times_[static_cast<size_t>(block)];
  observer_->OnBlockReused(times.released > 0 ? now_ - times.released : 0);
  times.released = 0;
}

void BlockTimes::OnReleased(BlockId block) { times_[static_cast<size_t>(block)].released = now_; }

void BlockTimes::OnEvicted(BlockId block) {
  const Times& times = times_[static_cast<size_t>(block)];
  observer_->OnBlockEvicted({.lived = now_ - times.taken, .idle = now_ - times.released});
}

}  // namespace erne
