// The most memory that this process had at once.
#pragma once

#include <cstdint>

namespace erne::bench {

// Bytes that were resident at most, since the process began or ResetPeakResident; pages of files
// that it looked at are among them. 0 where /proc does not say.
uint64_t PeakResident();

// Begins anew with what is resident now. False where the system does not allow it: then the peak is
// that of the whole life of the process.
bool ResetPeakResident();

}  // namespace erne::bench
