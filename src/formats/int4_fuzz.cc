// Any contents of 4-bit tensors (group indices above all), in shapes that the first bytes choose.
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "formats/int4.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kChoices = 8;
  if (size < kChoices) return 0;
  const bool gptq = (data[0] & 1) != 0;
  const bool with_groups = (data[0] & 2) != 0;
  const auto zeros = (data[0] & 4) != 0 ? erne::GptqZeros::kPlain : erne::GptqZeros::kMinusOne;
  const int64_t group = data[1] < 128 ? data[1] : data[1] - 256;  // -1 and worse, too
  // Enough bytes for every shape below: at most 255 x 255 words.
  std::vector<uint8_t> bytes(size_t{256} * 256 * 4);
  for (size_t i = 0; i < bytes.size() && kChoices + i < size; ++i) bytes[i] = data[kChoices + i];
  const auto* content = reinterpret_cast<const std::byte*>(bytes.data());
  const auto type = [](uint8_t choice, erne::DType usual) {
    return choice < 250 ? usual : static_cast<erne::DType>(choice % 12);
  };
  const erne::TensorView qweight{
      type(data[2], erne::DType::kI32), {data[3] % 64, data[4] % 64}, content};
  const int64_t inputs = gptq ? data[3] % 64 * 8 : data[3] % 64;
  const int64_t outputs = gptq ? data[4] % 64 : data[4] % 64 * 8;
  const int64_t groups = group > 0 ? inputs / group : data[5];
  const erne::TensorView qzeros{
      erne::DType::kI32, {groups, data[6] < 250 ? outputs / 8 : data[6]}, content};
  const erne::TensorView scales{type(data[7], erne::DType::kF16), {groups, outputs}, content};
  const erne::TensorView g_idx{erne::DType::kI32, {inputs}, content};
  const auto matrix = gptq ? erne::UnpackGptq("m", qweight, qzeros, scales,
                                              with_groups ? &g_idx : nullptr, group, zeros)
                           : erne::UnpackAwq("m", qweight, qzeros, scales, group);
  if (!matrix.ok()) return 0;
  std::vector<float> row(static_cast<size_t>(matrix->cols));
  for (int64_t r = 0; r < matrix->rows; ++r) erne::DequantizeRow(*matrix, r, row);
  for (const uint8_t zero : matrix->zeros) ERNE_CHECK(zero < 16) << static_cast<int>(zero);
  return 0;
}
