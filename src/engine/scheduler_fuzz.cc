// Lives of a scheduler chosen by bytes: who arrives, guesses, is cancelled, and when. Every promise
// is checked in every step.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "engine/scheduler_simulator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // All ranges that the simulator asks for are far below 2^16.
  const auto choose = [&data, &size](int64_t low, int64_t high) {
    int64_t choice = 0;
    for (int64_t range = high - low; range > 0 && size > 0; range >>= 8) {
      choice = choice << 8 | *data++;
      --size;
    }
    return low + choice % (high - low + 1);
  };
  erne::SchedulerSimulator simulator(choose);
  const erne::Status status = simulator.Run();
  ERNE_CHECK(status.ok()) << status.message();
  return 0;
}
