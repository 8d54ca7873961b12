#include "formats/safetensors.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/json.h"
#include "base/strings.h"

namespace erne {
namespace {

constexpr size_t kLengthBytes = 8;
// Far above what models use (4), and a bound on what a shape can cost to print.
constexpr size_t kMaxDimensions = 8;
// Bounds messages and maps that hold names; real names stay under 100 bytes.
constexpr size_t kMaxNameBytes = 512;

// An entry of the header, with its place in the data section.
struct Entry {
  std::string name;
  TensorView view;
  uint64_t begin = 0;
  uint64_t end = 0;
};

uint64_t ReadLength(std::span<const std::byte> bytes) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return length;
}

Status Fault(const std::string& name, std::string_view what) {
  return InvalidArgument(StrCat("tensor `", name, "`: ", what));
}

// A non-negative integer array, or an explanation.
Result<std::vector<int64_t>> ReadCounts(const std::string& name, const Json& entry,
                                        std::string_view key) {
  const Json* list = entry.Find(key);
  if (list == nullptr || !list->is_array())
    return Fault(name, StrCat("`", key, "` must be an array"));
  if (list->AsArray().size() > kMaxDimensions) {
    return Fault(name, StrCat("`", key, "` has ", list->AsArray().size(), " numbers, more than ",
                              kMaxDimensions));
  }
  std::vector<int64_t> counts;
  for (const Json& item : list->AsArray()) {
    if (!item.is_int() || item.AsInt() < 0) {
      return Fault(name,
                   StrCat("`", key, "` holds something that is no non-negative 64-bit integer"));
    }
    counts.push_back(item.AsInt());
  }
  return counts;
}

// Bytes of `shape` x `dtype`; InvalidArgument when no 64-bit number holds them.
Result<uint64_t> ByteSize(const std::string& name, const Shape& shape, DType dtype) {
  uint64_t bytes = DTypeSize(dtype);
  for (const int64_t extent : shape) {
    // Not skipped for an extent of 0 elsewhere: [2^40, 2^40, 0] would overflow in any other order
    // of multiplication.
    if (extent > 0 && bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) /
                                  static_cast<uint64_t>(extent)) {
      return Fault(name, StrCat("shape ", ShapeString(shape), " overflows"));
    }
    if (extent > 0) bytes *= static_cast<uint64_t>(extent);
  }
  return std::find(shape.begin(), shape.end(), 0) == shape.end() ? bytes : 0;
}

Result<Entry> ReadEntry(const std::string& name, const Json& json,
                        std::span<const std::byte> data) {
  if (name.size() > kMaxNameBytes) {
    return InvalidArgument(
        StrCat("a tensor name of ", name.size(), " bytes is longer than ", kMaxNameBytes));
  }
  if (!json.is_object()) return Fault(name, StrCat("must be an object, not ", json.KindName()));
  Entry entry;
  entry.name = name;
  const Json* dtype_name = json.Find("dtype");
  if (dtype_name == nullptr || !dtype_name->is_string())
    return Fault(name, "`dtype` must be a string");
  const std::optional<DType> dtype = DTypeFromName(dtype_name->AsString());
  if (!dtype)
    return Fault(name, StrCat("unknown dtype `", dtype_name->AsString().substr(0, 40), "`"));
  entry.view.dtype = *dtype;
  ERNE_ASSIGN_OR_RETURN(entry.view.shape, ReadCounts(name, json, "shape"));
  ERNE_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, ReadCounts(name, json, "data_offsets"));
  if (offsets.size() != 2) return Fault(name, "`data_offsets` must hold two numbers");
  entry.begin = static_cast<uint64_t>(offsets[0]);
  entry.end = static_cast<uint64_t>(offsets[1]);
  if (entry.begin > entry.end) {
    return Fault(name, StrCat("`data_offsets` [", entry.begin, ", ", entry.end, "] run backwards"));
  }
  ERNE_ASSIGN_OR_RETURN(const uint64_t bytes, ByteSize(name, entry.view.shape, *dtype));
  if (bytes != entry.end - entry.begin) {
    return Fault(
        name, StrCat("shape ", ShapeString(entry.view.shape), " of ", DTypeName(*dtype), " takes ",
                     bytes, " bytes, but `data_offsets` span ", entry.end - entry.begin));
  }
  if (entry.end > data.size()) {
    return DataLoss(StrCat("tensor `", name, "` ends at byte ", entry.end,
                           " of the data, but the file holds ", data.size(), ": it is truncated"));
  }
  entry.view.data = data.data() + entry.begin;
  return entry;
}

// The format wants the tensors to tile the data section: no overlap, no hole, nothing after the
// last.
Status CheckTiling(std::vector<Entry>& entries, uint64_t data_size) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin < at)
      return Fault(entry.name, StrCat("begins at byte ", entry.begin, ", inside another tensor"));
    if (entry.begin > at) {
      return Fault(entry.name, StrCat("begins at byte ", entry.begin,
                                      ", but the tensor before it ends at ", at));
    }
    at = entry.end;
  }
  if (at != data_size) {
    return InvalidArgument(
        StrCat("the tensors end at byte ", at, " of the data, but the file holds ", data_size));
  }
  return {};
}

}  // namespace

Result<std::map<std::string, TensorView>> ParseSafetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) {
    return DataLoss(StrCat(
        "a safetensors file begins with 8 bytes of header length; this file has ", bytes.size()));
  }
  const uint64_t header_size = ReadLength(bytes);
  if (header_size > kMaxSafetensorsHeader) {
    return InvalidArgument(StrCat("header length ", header_size, " is above the limit of ",
                                  kMaxSafetensorsHeader, " bytes: not a safetensors file?"));
  }
  if (header_size > bytes.size() - kLengthBytes) {
    return DataLoss(StrCat("the header should take ", header_size, " bytes, but only ",
                           bytes.size() - kLengthBytes, " follow: the file is truncated"));
  }
  const auto header_bytes = bytes.subspan(kLengthBytes, header_size);
  const auto data = bytes.subspan(kLengthBytes + header_size);
  const std::string_view text(reinterpret_cast<const char*>(header_bytes.data()),
                              header_bytes.size());
  Result<Json> header = Json::Parse(text);
  if (!header.ok()) return header.status().WithContext("safetensors header");
  if (!header->is_object()) {
    return InvalidArgument(
        StrCat("the safetensors header must be an object, not ", header->KindName()));
  }

  std::vector<Entry> entries;
  entries.reserve(header->AsObject().size());
  for (const auto& [name, json] : header->AsObject()) {
    if (name == "__metadata__") continue;
    ERNE_ASSIGN_OR_RETURN(Entry entry, ReadEntry(name, json, data));
    entries.push_back(std::move(entry));
  }
  ERNE_RETURN_IF_ERROR(CheckTiling(entries, data.size()));
  std::map<std::string, TensorView> tensors;
  for (Entry& entry : entries) tensors.emplace(std::move(entry.name), std::move(entry.view));
  return tensors;
}

}  // namespace erne
