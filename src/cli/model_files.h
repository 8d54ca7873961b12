// Where the files of a model are: in a folder, or inside the program.
#pragma once

#include <memory>
#include <string>

#include "base/file_set.h"
#include "base/status.h"

namespace erne {

// The model that is part of the program.
inline constexpr const char* kEmbeddedModel = "erne-mini";

// The files of the folder `model`; of the embedded model when the name is empty, or is the embedded
// one's and no folder is called so. Errors say what was tried.
Result<std::shared_ptr<const FileSet>> OpenModelFiles(const std::string& model);

}  // namespace erne
