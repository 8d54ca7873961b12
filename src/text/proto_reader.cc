#include "text/proto_reader.h"

#include <bit>

#include "base/strings.h"

namespace erne {

float ProtoField::AsFloat() const { return std::bit_cast<float>(static_cast<uint32_t>(value)); }

Status ProtoReader::Fault(std::string_view what) const {
  return DataLoss(StrCat("broken protobuf at byte ", base_ + at_, ": ", what));
}

Result<uint64_t> ProtoReader::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (AtEnd()) return Fault("a number is cut off");
    const auto byte = static_cast<uint8_t>(data_[at_++]);
    if (shift == 63 && byte > 1) break;
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return Fault("a number is longer than 64 bits");
}

Result<uint64_t> ProtoReader::Fixed(int width) {
  if (data_.size() - at_ < static_cast<size_t>(width)) return Fault("a number is cut off");
  uint64_t value = 0;
  for (int i = 0; i < width; ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(data_[at_++])) << (8 * i);
  }
  return value;
}

Result<ProtoField> ProtoReader::Next() {
  ERNE_ASSIGN_OR_RETURN(const uint64_t tag, Varint());
  if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) return Fault("a field number is out of range");
  ProtoField field;
  field.number = static_cast<uint32_t>(tag >> 3);
  switch (tag & 7) {
    case ProtoField::kVarint: {
      field.wire = ProtoField::kVarint;
      ERNE_ASSIGN_OR_RETURN(field.value, Varint());
      return field;
    }
    case ProtoField::kFixed64: {
      field.wire = ProtoField::kFixed64;
      ERNE_ASSIGN_OR_RETURN(field.value, Fixed(8));
      return field;
    }
    case ProtoField::kFixed32: {
      field.wire = ProtoField::kFixed32;
      ERNE_ASSIGN_OR_RETURN(field.value, Fixed(4));
      return field;
    }
    case ProtoField::kBytes: {
      field.wire = ProtoField::kBytes;
      ERNE_ASSIGN_OR_RETURN(const uint64_t size, Varint());
      if (size > data_.size() - at_) return Fault(StrCat("a field of ", size, " bytes is cut off"));
      field.bytes = data_.substr(at_, size);
      at_ += size;
      return field;
    }
    default:
      return Fault(StrCat("wire type ", tag & 7, " is not supported"));
  }
}

}  // namespace erne
