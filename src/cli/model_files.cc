#include "cli/model_files.h"

#include <filesystem>
#include <system_error>

#include "base/strings.h"
#include "embedded/default_model.h"

namespace erne {

namespace fs = std::filesystem;

Result<std::shared_ptr<const FileSet>> OpenModelFiles(const std::string& model) {
  std::error_code error;
  const bool exists = !model.empty() && fs::exists(model, error);
  if (model.empty() || (model == kEmbeddedModel && !exists)) {
    return MakeEmbeddedFileSet(StrCat("embedded:", kEmbeddedModel), EmbeddedDefaultModel());
  }
  if (error) return InvalidArgument(StrCat("the model ", model, ": ", error.message()));
  if (!exists) {
    return NotFound(StrCat("there is no folder ",
                           fs::absolute(model, error).lexically_normal().string(),
                           ": name the folder that holds the model's config.json (erne downloads "
                           "nothing; a name on a hub is no folder)"));
  }
  if (!fs::is_directory(model, error)) {
    return InvalidArgument(
        StrCat(model, " is a file: name the folder that holds the model's config.json"));
  }
  return OpenFolder(model);
}

}  // namespace erne
