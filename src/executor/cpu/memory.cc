#include "executor/cpu/memory.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "base/machine.h"
#include "base/strings.h"

namespace erne::cpu {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
// No computation of sizes may come near the end of 64 bits.
constexpr int64_t kMaxBytes = int64_t{1} << 62;

Status TooLarge(const std::string& what) {
  return ResourceExhausted(StrCat(what, " would need more than 2^62 bytes"));
}

// Asks the system for the pages of [data, data + bytes); false when it cannot be asked. Linux 5.14,
// and addresses at the begin of a page.
bool PopulatePages(std::byte* data, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  return ::madvise(data, bytes, MADV_POPULATE_WRITE) == 0;
#else
  (void)data, (void)bytes;
  return false;
#endif
}

// Writes what is there into each page: only where nobody else writes.
void TouchPages(std::byte* data, size_t bytes) {
  constexpr size_t kSmallestPage = 4096;
  for (size_t i = 0; i < bytes; i += kSmallestPage) {
    volatile std::byte& touched = data[i];
    touched = touched;
  }
}

}  // namespace

void Buffer::Free::operator()(std::byte* data) const { std::free(data); }

Result<Buffer> Buffer::Allocate(const std::string& what, size_t bytes) {
  if (bytes > static_cast<size_t>(kMaxBytes)) return TooLarge(what);
  const size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kCacheLine;
  const size_t size = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  Buffer buffer;
  buffer.data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, size)));
  if (buffer.data_ == nullptr)
    return ResourceExhausted(StrCat(what, " needs ", size, " bytes, which are not there"));
  static const std::vector<int> nodes = NodesInUse();
  if (alignment == kHugePage) SpreadOverNodes(buffer.data_.get(), size, nodes);
#if defined(MADV_HUGEPAGE)
  // Advice: without it the program is slower, not wrong.
  if (alignment == kHugePage) ::madvise(buffer.data_.get(), size, MADV_HUGEPAGE);
#endif
  buffer.bytes_ = size;
  return buffer;
}

Result<std::byte*> Arena::Allocate(const std::string& what, size_t bytes) {
  // Pages that nothing is written to take no memory, so what is left over at the end costs nothing.
  constexpr size_t kPiece = 32 * kHugePage;
  if (bytes > static_cast<size_t>(kMaxBytes)) return TooLarge(what);
  const size_t size = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  if (size > left_) {
    ERNE_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(what, std::max(size, kPiece)));
    next_ = buffer.data();
    left_ = buffer.bytes();
    buffers_.push_back(std::move(buffer));
  }
  std::byte* const piece = next_;
  next_ += size;
  left_ -= size;
  return piece;
}

std::optional<int64_t> CheckedProduct(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (factor < 0 || (factor != 0 && product > kMaxBytes / factor)) return std::nullopt;
    product *= factor;
  }
  return product;
}

Status Workspace::Allocate(const std::string& what, Start start) {
#ifndef NDEBUG
  start = Start::kNan;
#endif
  int64_t total = 0;
  for (const Request& request : requests_) {
    const auto bytes =
        request.elements
            ? CheckedProduct({*request.elements, static_cast<int64_t>(request.element_bytes)})
            : std::nullopt;
    if (!bytes || *bytes > kMaxBytes - total) return TooLarge(what);
    total += *bytes;
  }
  // Where the system promises more memory than it has, asking is no test: the process would be
  // killed at first touch.
  static const uint64_t machine_bytes = TotalMemory();
  if (machine_bytes > 0 && static_cast<uint64_t>(total) > machine_bytes) {
    return ResourceExhausted(
        StrCat(what, " needs ", total, " bytes, this machine has ", machine_bytes));
  }
  for (const Request& request : requests_) {
    auto buffer = Buffer::Allocate(StrCat(what, " (", total, " bytes in all)"),
                                   static_cast<size_t>(*request.elements) * request.element_bytes);
    if (!buffer.ok()) return buffer.status();
    if (start == Start::kNan) std::memset(buffer->data(), 0xFF, buffer->bytes());
    *request.array = buffer->data();
    bytes_ += buffer->bytes();
    buffers_.push_back(*std::move(buffer));
  }
  requests_.clear();
  return {};
}

std::span<std::byte> Workspace::NextPages(size_t size) const {
  size_t before = taken_;
  for (const Buffer& buffer : buffers_) {
    if (before < buffer.bytes()) {
      return {buffer.data() + before, std::min(size, buffer.bytes() - before)};
    }
    before -= buffer.bytes();
  }
  return {};
}

void Workspace::TakePages(ThreadPool& pool, double seconds,
                          const std::function<void(double)>& progress) {
  constexpr auto kPiece = static_cast<int64_t>(4 * kHugePage);
  constexpr size_t kStep = 16 * kPiece;  // between two looks at the clock
  const auto begin = std::chrono::steady_clock::now();
  while (!has_all_pages()) {
    const std::span<std::byte> next = NextPages(kStep);
    std::atomic<bool> populates{true};
    pool.ParallelFor(static_cast<int64_t>(next.size()), kPiece,
                     [&](int64_t first, int64_t end, int) {
                       const auto bytes = static_cast<size_t>(end - first);
                       if (PopulatePages(next.data() + first, bytes)) return;
                       TouchPages(next.data() + first, bytes);
                       populates.store(false, std::memory_order_relaxed);
                     });
    taken_ += next.size();
    if (progress) progress(static_cast<double>(taken_) / static_cast<double>(bytes_));
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (populates && passed.count() > seconds) break;
  }
}

void Workspace::FinishPages(const std::atomic<bool>& stop) {
  constexpr size_t kStep = 4 * kHugePage;
  while (!has_all_pages() && !stop.load(std::memory_order_relaxed)) {
    const std::span<std::byte> next = NextPages(kStep);
    // Where the system cannot be asked any more, pages come with their first use.
    (void)PopulatePages(next.data(), next.size());
    taken_ += next.size();
  }
}

PageTaker::~PageTaker() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void PageTaker::Start(Workspace& workspace) {
  try {
    thread_ = std::thread([this, &workspace] {
#ifdef SCHED_IDLE
      const sched_param lowest = {};
      ::pthread_setschedparam(::pthread_self(), SCHED_IDLE, &lowest);
#endif
      workspace.FinishPages(stop_);
    });
  } catch (const std::system_error&) {  // no thread: pages come with their first use
  }
}

}  // namespace erne::cpu
