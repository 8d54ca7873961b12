#include "executor/cpu/expert_groups.h"

#include <algorithm>

#include "base/check.h"

namespace erne::cpu {

// A counting sort.
void GroupByExpert(std::span<const int32_t> ids, int64_t top_k, std::span<int32_t> begin,
                   std::span<int32_t> rows, std::span<int32_t> slots) {
  ERNE_DCHECK(rows.size() == ids.size() && slots.size() == ids.size());
  std::fill(begin.begin(), begin.end(), 0);
  for (const int32_t id : ids) ++begin[static_cast<size_t>(id) + 1];
  for (size_t e = 1; e < begin.size(); ++e) begin[e] += begin[e - 1];
  // begin[e] serves as expert e's next free slot, which ends at begin[e + 1]'s old value; then
  // everything moves one place.
  for (size_t i = 0; i < ids.size(); ++i) {
    const int32_t slot = begin[static_cast<size_t>(ids[i])]++;
    slots[i] = slot;
    rows[static_cast<size_t>(slot)] = static_cast<int32_t>(static_cast<int64_t>(i) / top_k);
  }
  for (size_t e = begin.size() - 1; e > 0; --e) begin[e] = begin[e - 1];
  begin[0] = 0;
}

}  // namespace erne::cpu
