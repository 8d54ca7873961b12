#include "model/quantization.h"

#include "base/strings.h"
#include "model/config_reader.h"

namespace erne {
namespace {

void ReadAwq(ConfigReader& reader, QuantizationSpec& spec) {
  spec.method = QuantMethod::kAwq;
  const std::string version = ToLowerAscii(reader.TextOr("version", "gemm"));
  if (version != "gemm")
    reader.Fail("version", StrCat("`", version, "` is not supported (gemm is)"));
  if (!reader.FlagOr("zero_point", true)) reader.Fail("zero_point", "false is not supported");
}

void ReadGptq(ConfigReader& reader, QuantizationSpec& spec) {
  spec.method = QuantMethod::kGptq;
  spec.act_order = reader.FlagOr("desc_act", false);
  const std::string format = ToLowerAscii(reader.TextOr("checkpoint_format", "gptq"));
  if (format == "gptq_v2") {
    spec.gptq_zeros = GptqZeros::kPlain;
  } else if (format != "gptq") {
    reader.Fail("checkpoint_format",
                StrCat("`", format, "` is not supported (gptq and gptq_v2 are)"));
  }
}

}  // namespace

Result<QuantizationSpec> ReadQuantization(const Json& config) {
  constexpr std::string_view kSection = "quantization_config";
  QuantizationSpec spec;
  const Json* section = config.Find(kSection);
  if (section == nullptr || section->is_null()) return spec;
  if (!section->is_object()) {
    return InvalidArgument(StrCat("`", kSection, "` must be an object, not ", section->KindName()),
                           std::string(kSection));
  }
  ConfigReader reader(*section, StrCat(kSection, "."));
  const std::string method = ToLowerAscii(reader.TextOr("quant_method", ""));
  if (method == "awq") {
    ReadAwq(reader, spec);
  } else if (method == "gptq") {
    ReadGptq(reader, spec);
  } else {
    reader.Fail("quant_method", StrCat("`", method, "` is not supported (awq and gptq are)"));
  }
  const int64_t bits = reader.Int("bits", 1, 64);
  if (bits != 4) reader.Fail("bits", StrCat("is ", bits, "; only 4 is supported"));
  spec.group = reader.Int("group_size", -1, kMaxConfigNumber);
  if (spec.group == 0 || (spec.group > 0 && spec.group % 2 != 0)) {
    reader.Fail("group_size", StrCat("is ", spec.group, ", must be even, or -1 for one group"));
  }
  if (!reader.ok()) return reader.status();
  return spec;
}

}  // namespace erne
