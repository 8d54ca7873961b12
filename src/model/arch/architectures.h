// The known families; see model/architecture.h.
#pragma once

#include "model/architecture.h"

namespace erne {

Architecture Ernie45Architecture();
Architecture Ernie45MoeArchitecture();
Architecture LlamaArchitecture();
Architecture MixtralArchitecture();
Architecture Qwen2Architecture();
Architecture Qwen3Architecture();
Architecture Qwen3MoeArchitecture();

}  // namespace erne
