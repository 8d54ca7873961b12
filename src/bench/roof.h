// The roof of the machine: how fast its memory can be read and how fast it can multiply, measured
// with as many threads as the executor has. Figures of a shared machine mean something beside
// each other alone, so a benchmark measures this in every one of its turns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "bench/peaks.h"

namespace erne::bench {

// What the loops of this CPU are, slowest sets first; each set has what the ones before it had
// where it has nothing better.
struct PeakSet {
  std::string
      name;  // as of CpuExecutorOptions::isa: "scalar", "avx2", "avx512", "avx512_vnni", ...
  uint64_t (*read)(const void* data, int64_t bytes) = nullptr;
  ArithmeticLoop f32, bf16, int8;  // bf16, int8: those of f32 where there is no instruction
};
// The best that this CPU has.
PeakSet BestPeaks();
// All that it has, the scalar one first.
std::vector<PeakSet> SupportedPeaks();

struct Roof {
  double read = 0;  // bytes a second
  double f32 = 0;   // operations a second; a multiply-add is two
  double bf16 = 0;
  double int8 = 0;
};

// Owns threads and a buffer that no cache holds. One thread at a time.
class RoofMeter {
 public:
  // ResourceExhausted when the machine has no memory for a buffer larger than its caches.
  // threads: as of ThreadPool.
  static Result<std::unique_ptr<RoofMeter>> Make(int threads);

  // Measures once, about 0.1 s, and keeps the figures.
  void Measure();
  // Medians of what was measured; CHECKs that there is something.
  Roof Median() const;

  const PeakSet& peaks() const { return peaks_; }
  int64_t buffer_bytes() const { return static_cast<int64_t>(buffer_bytes_); }
  int threads() const { return pool_.threads(); }
  size_t turns() const { return turns_.size(); }

 private:
  explicit RoofMeter(int threads) : pool_(threads), peaks_(BestPeaks()) {}

  double ReadRate();
  double Rate(const ArithmeticLoop& loop);

  struct FreeAligned {
    void operator()(std::byte* data) const;
  };
  ThreadPool pool_;
  const PeakSet peaks_;
  std::unique_ptr<std::byte, FreeAligned> buffer_;
  size_t buffer_bytes_ = 0;
  std::vector<Roof> turns_;
  double sink_ = 0;  // what the loops return
};

// {"read_gb_s": ..., "f32_gflop_s": ..., ...} with the instructions and the threads.
Json ToJson(const Roof& roof, const RoofMeter& meter);
// One line for people.
std::string Describe(const Roof& roof, const RoofMeter& meter);

// Of no value in particular; the upper middle one of an even number. CHECKs that there is one.
double Median(std::vector<double> values);

}  // namespace erne::bench
