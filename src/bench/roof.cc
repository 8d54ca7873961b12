#include "bench/roof.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <sys/mman.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/strings.h"

namespace erne::bench {
namespace {

// Beyond every cache in bytes, unless the caches are larger still.
constexpr size_t kLeastBuffer = size_t{512} << 20;
// Of the caches together: what stays of the last turn in them is then less than a quarter.
constexpr size_t kCacheMultiple = 4;
// Of the memory that is free, the most that a buffer takes.
constexpr size_t kMemoryShare = 4;
// The buffer lies in huge pages, as weights do: prefetchers stop at the end of a page.
constexpr size_t kHugePage = size_t{2} << 20;
// What a thread reads between two looks at the others: a few tens of microseconds.
constexpr int64_t kPieceBytes = kHugePage;
// How long a loop of multiply-adds is timed, and a piece of it.
constexpr double kLoopSeconds = 0.02;
constexpr double kPieceSeconds = 100e-6;

// The size in the file's own spelling, as "32768K"; 0 when there is none.
size_t CacheSize(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  file >> text;
  const size_t unit = text.empty() || text.back() != 'K' ? 1 : 1024;
  if (unit == 1024) text.pop_back();
  return ParseNumber<size_t>(text).value_or(0) * unit;
}

// Bytes of the largest caches of all CPUs together, each counted once.
size_t LargestCaches() {
  size_t all = 0;
  std::vector<std::string> seen;
  for (int cpu = 0;; ++cpu) {
    const std::string caches = StrCat("/sys/devices/system/cpu/cpu", cpu, "/cache");
    if (!std::ifstream(caches + "/index0/size")) return all;
    std::string last;
    for (int index = 0; index < 8; ++index) {
      const std::string path = StrCat(caches, "/index", index);
      if (std::ifstream(path + "/size")) last = path;
    }
    std::ifstream shared(last + "/shared_cpu_list");
    std::string cpus;
    shared >> cpus;
    if (std::find(seen.begin(), seen.end(), cpus) != seen.end()) continue;
    seen.push_back(cpus);
    all += CacheSize(last + "/size");
  }
}

ArithmeticLoop OrElse(const ArithmeticLoop& loop, const ArithmeticLoop& other) {
  return loop.run == nullptr ? other : loop;
}

}  // namespace

std::vector<PeakSet> SupportedPeaks() {
  std::vector<PeakSet> sets;
  const auto add = [&](std::string name, const Peaks& peaks) {
    PeakSet set{std::move(name), peaks.read, peaks.f32, OrElse(peaks.bf16, peaks.f32),
                OrElse(peaks.int8, peaks.f32)};
    sets.push_back(std::move(set));
  };
  add("scalar", portable::kPeaks);
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!avx2) return sets;
  add("avx2", avx2::kPeaks);
  if (__builtin_cpu_supports("avxvnni")) {
    sets.push_back(sets.back());
    sets.back().name = "avx_vnni";
    sets.back().int8 = avx_vnni::kInt8;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (!avx512) return sets;
  add("avx512", avx512::kPeaks);
  if (__builtin_cpu_supports("avx512vnni")) {
    sets.push_back(sets.back());
    sets.back().name = "avx512_vnni";
    sets.back().int8 = avx512_vnni::kInt8;
  }
  if (__builtin_cpu_supports("avx512bf16")) {
    sets.push_back(sets.back());
    sets.back().name = "avx512_bf16";
    sets.back().bf16 = avx512_bf16::kBf16;
  }
  if (TakeAmxTiles()) {
    sets.push_back(sets.back());
    sets.back().name = "amx";
    sets.back().bf16 = amx::kBf16;
    sets.back().int8 = amx::kInt8;
  }
#endif
  return sets;
}

PeakSet BestPeaks() { return SupportedPeaks().back(); }

double Median(std::vector<double> values) {
  ERNE_CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void RoofMeter::FreeAligned::operator()(std::byte* data) const { std::free(data); }

Result<std::unique_ptr<RoofMeter>> RoofMeter::Make(int threads) {
  std::unique_ptr<RoofMeter> meter(new RoofMeter(threads));
  const size_t caches = LargestCaches();
  const size_t available = AvailableMemory();
  size_t bytes = std::max(kLeastBuffer, kCacheMultiple * caches);
  if (available > 0) bytes = std::min<size_t>(bytes, available / kMemoryShare);
  bytes -= bytes % kPieceBytes;
  const size_t least = std::max<size_t>(2 * caches, kPieceBytes);
  if (bytes < least) {
    return ResourceExhausted(
        StrCat("the speed of memory cannot be measured: a buffer beyond the "
               "caches takes ",
               FormatBytes(least), ", and ", FormatBytes(available), " are free"));
  }
  meter->buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(kHugePage, bytes)));
  if (meter->buffer_ == nullptr) {
    return ResourceExhausted(StrCat("no memory for a buffer of ", FormatBytes(bytes)));
  }
  // A wish: without them the figure is lower, and so is the speed of weights.
  ::madvise(meter->buffer_.get(), bytes, MADV_HUGEPAGE);
  meter->buffer_bytes_ = bytes;
  // Written, and not by one thread: else all of it is one page of zeros, or lies on one node.
  meter->pool_.ParallelFor(
      static_cast<int64_t>(bytes), kPieceBytes, [&](int64_t begin, int64_t end, int) {
        std::fill(meter->buffer_.get() + begin, meter->buffer_.get() + end, std::byte{1});
      });
  return meter;
}

double RoofMeter::ReadRate() {
  std::vector<uint64_t> sums(static_cast<size_t>(pool_.threads()));
  const double begin = SteadySeconds();
  pool_.ParallelFor(
      static_cast<int64_t>(buffer_bytes_), kPieceBytes, [&](int64_t from, int64_t to, int worker) {
        sums[static_cast<size_t>(worker)] += peaks_.read(buffer_.get() + from, to - from);
      });
  const double seconds = SteadySeconds() - begin;
  for (const uint64_t sum : sums) sink_ += static_cast<double>(sum);
  return static_cast<double>(buffer_bytes_) / seconds;
}

double RoofMeter::Rate(const ArithmeticLoop& loop) {
  // Rounds of a piece, from a try of this CPU as it is now.
  int64_t rounds = 1000;
  double begin = SteadySeconds();
  sink_ += static_cast<double>(loop.run(rounds));
  const double one = (SteadySeconds() - begin) / static_cast<double>(rounds);
  rounds = std::max<int64_t>(1000, static_cast<int64_t>(kPieceSeconds / std::max(one, 1e-12)));
  const auto pieces = static_cast<int64_t>(kLoopSeconds / kPieceSeconds) * pool_.threads();
  std::vector<double> sums(static_cast<size_t>(pool_.threads()));
  begin = SteadySeconds();
  pool_.ParallelFor(pieces, 1, [&](int64_t, int64_t, int worker) {
    sums[static_cast<size_t>(worker)] += static_cast<double>(loop.run(rounds));
  });
  const double seconds = SteadySeconds() - begin;
  for (const double sum : sums) sink_ += sum;
  return static_cast<double>(loop.operations) * static_cast<double>(rounds) *
         static_cast<double>(pieces) / seconds;
}

void RoofMeter::Measure() {
  Roof roof;
  roof.read = ReadRate();
  roof.f32 = Rate(peaks_.f32);
  roof.bf16 = Rate(peaks_.bf16);
  roof.int8 = Rate(peaks_.int8);
  turns_.push_back(roof);
}

Roof RoofMeter::Median() const {
  const auto median = [this](double Roof::* field) {
    std::vector<double> values;
    values.reserve(turns_.size());
    for (const Roof& turn : turns_) values.push_back(turn.*field);
    return bench::Median(std::move(values));
  };
  return {median(&Roof::read), median(&Roof::f32), median(&Roof::bf16), median(&Roof::int8)};
}

Json ToJson(const Roof& roof, const RoofMeter& meter) {
  const PeakSet& peaks = meter.peaks();
  return Json::Of({{"threads", meter.threads()},
                   {"turns", meter.turns()},
                   {"buffer_bytes", meter.buffer_bytes()},
                   {"read_gb_s", roof.read / 1e9},
                   {"f32_gflop_s", roof.f32 / 1e9},
                   {"f32_instruction", peaks.f32.instruction},
                   {"bf16_gflop_s", roof.bf16 / 1e9},
                   {"bf16_instruction", peaks.bf16.instruction},
                   {"int8_gop_s", roof.int8 / 1e9},
                   {"int8_instruction", peaks.int8.instruction}});
}

std::string Describe(const Roof& roof, const RoofMeter& meter) {
  const PeakSet& peaks = meter.peaks();
  const auto giga = [](double value) { return FormatFixed(value / 1e9, 1); };
  return StrCat("read ", giga(roof.read), " GB/s; f32 ", giga(roof.f32), " GFLOP/s (",
                peaks.f32.instruction, "), bf16 ", giga(roof.bf16), " GFLOP/s (",
                peaks.bf16.instruction, "), int8 ", giga(roof.int8), " GOP/s (",
                peaks.int8.instruction, "); ", meter.threads(), " threads");
}

}  // namespace erne::bench
