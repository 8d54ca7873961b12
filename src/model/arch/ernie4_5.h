// What the dense and the mixture-of-experts ERNIE-4.5 have in common.
#pragma once

#include "model/config_reader.h"
#include "model/model_spec.h"

namespace erne {

// Everything but the layers' kinds and the experts. Faults are left in `reader`.
ModelSpec ReadErnie45Decoder(ConfigReader& reader);

}  // namespace erne
