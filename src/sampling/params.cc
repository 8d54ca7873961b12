#include "sampling/params.h"

#include <cmath>

#include "base/strings.h"

namespace erne {

Status ValidateSampling(const SamplingParams& params) {
  // Written so that NaN fails every test.
  if (!(params.temperature >= 0.0F) || !std::isfinite(params.temperature)) {
    return InvalidArgument(StrCat("temperature must be 0 or more, got ", params.temperature),
                           "temperature");
  }
  if (!(params.top_p > 0.0F && params.top_p <= 1.0F)) {
    return InvalidArgument(StrCat("top_p must be in (0, 1], got ", params.top_p), "top_p");
  }
  if (params.top_k < -1) {
    return InvalidArgument(
        StrCat("top_k must be -1 or 0 (all tokens) or positive, got ", params.top_k), "top_k");
  }
  if (!(params.repetition_penalty > 0.0F) || !std::isfinite(params.repetition_penalty)) {
    return InvalidArgument(
        StrCat("repetition_penalty must be above 0, got ", params.repetition_penalty),
        "repetition_penalty");
  }
  return {};
}

}  // namespace erne
