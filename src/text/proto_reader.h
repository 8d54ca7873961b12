// The wire format of Protocol Buffers, as far as reading needs it: fields one after the other, no
// schema. https://protobuf.dev/programming-guides/encoding
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace erne {

struct ProtoField {
  uint32_t number = 0;
  enum Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 } wire = kVarint;
  uint64_t value = 0;      // of a varint or fixed field
  std::string_view bytes;  // of a string or message; points into the input

  float AsFloat() const;  // a fixed32 field's bits
};

// Walks over the fields of one message. The input is hostile: every length is checked before use.
class ProtoReader {
 public:
  // `base` is the offset of `data` in the file, for messages.
  explicit ProtoReader(std::string_view data, size_t base = 0) : data_(data), base_(base) {}

  bool AtEnd() const { return at_ == data_.size(); }
  Result<ProtoField> Next();
  // Offset in the file of the field's bytes, for a nested reader.
  size_t OffsetOf(const ProtoField& field) const {
    return base_ + (field.bytes.data() - data_.data());
  }

 private:
  Result<uint64_t> Varint();
  Result<uint64_t> Fixed(int width);
  Status Fault(std::string_view what) const;

  std::string_view data_;
  size_t base_;
  size_t at_ = 0;
};

}  // namespace erne
