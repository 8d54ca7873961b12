#include "executor/cpu/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

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
#if defined(MADV_HUGEPAGE)
  // Advice: without it the program is slower, not wrong.
  if (alignment == kHugePage) ::madvise(buffer.data_.get(), size, MADV_HUGEPAGE);
#endif
  buffer.bytes_ = size;
  return buffer;
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

}  // namespace erne::cpu
