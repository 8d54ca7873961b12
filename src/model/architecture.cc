#include "model/architecture.h"

#include "base/strings.h"
#include "model/arch/architectures.h"
#include "model/model.h"

namespace erne {
namespace {

// Sorted by model_type.
const std::vector<Architecture>& Architectures() {
  static const std::vector<Architecture> architectures = {
      Ernie45Architecture(),  Ernie45MoeArchitecture(), LlamaArchitecture(),
      MixtralArchitecture(),  Qwen2Architecture(),      Qwen3Architecture(),
      Qwen3MoeArchitecture(),
  };
  return architectures;
}

// Vision towers announce themselves by a section of their own, by "vl" as a word of the type, or
// (ERNIE) by listing the experts of each modality.
bool IsVisionLanguage(const Json& config, std::string_view model_type) {
  for (const std::string_view section : {"vision_config", "vision_tower", "mm_vision_tower"}) {
    const Json* found = config.Find(section);
    if (found != nullptr && !found->is_null()) return true;
  }
  for (const std::string& word : Split(model_type, '_')) {
    if (word == "vl" || word == "vlm" || word == "llava" || word == "mllama") return true;
  }
  const Json* experts = config.Find("moe_num_experts");
  return experts != nullptr && experts->is_array();
}

}  // namespace

const Architecture* FindArchitecture(std::string_view model_type) {
  for (const Architecture& architecture : Architectures()) {
    if (architecture.model_type == model_type) return &architecture;
  }
  return nullptr;
}

Result<const Architecture*> ArchitectureOf(const Json& config) {
  constexpr const char* kField = "model_type";
  if (!config.is_object())
    return InvalidArgument(StrCat("must be an object, not ", config.KindName()));
  ERNE_ASSIGN_OR_RETURN(std::string model_type, StringMember(config, kField, ""));
  if (model_type.empty()) return InvalidArgument("`model_type` is missing", kField);
  model_type.resize(std::min<size_t>(model_type.size(), 100));  // it ends up in messages
  if (IsVisionLanguage(config, model_type)) {
    return Unimplemented(
        StrCat("`", model_type, "` is a vision-language model; erne serves text models only"),
        kField);
  }
  const Architecture* architecture = FindArchitecture(model_type);
  if (architecture == nullptr) {
    return Unimplemented(StrCat("model_type `", model_type, "` is not supported; known are ",
                                Join(KnownArchitectures(), ", ")),
                         kField);
  }
  return architecture;
}

std::vector<std::string> KnownArchitectures() {
  std::vector<std::string> names;
  for (const Architecture& architecture : Architectures())
    names.emplace_back(architecture.model_type);
  return names;
}

}  // namespace erne
