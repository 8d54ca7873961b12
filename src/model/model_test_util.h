// Test helper: the committed models, and copies of them with something changed.
#pragma once

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file_set.h"
#include "formats/checkpoint.h"
#include "formats/safetensors_builder.h"
#include "model/model.h"

namespace erne {

inline std::string EnvironmentOr(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : value;
}

inline std::string ReferenceFolder(const std::string& name) {
  return EnvironmentOr("ERNE_TEST_DATA", "tests/data") + "/reference-models/" + name;
}
inline std::string ErneMiniFolder() {
  return EnvironmentOr("ERNE_SOURCE", ".") + "/models/erne-mini";
}

inline Result<Model> LoadFolder(const std::string& path) {
  ERNE_ASSIGN_OR_RETURN(auto files, OpenFolder(path));
  return LoadModel(std::move(files));
}

// config.json of a folder. The folder must be there.
inline Json FolderConfig(const std::string& path) {
  const auto files = OpenFolder(path);
  return Json::Parse((*files)->Text("config.json").value()).value();
}

// A reference model in memory, to be broken. Usage: change config and tensors, then Load().
struct EditableModel {
  explicit EditableModel(const std::string& reference_name)
      : config(FolderConfig(ReferenceFolder(reference_name))),
        checkpoint(Checkpoint::Open(OpenFolder(ReferenceFolder(reference_name)).value()).value()),
        tensors(checkpoint->tensors()) {}

  // The copy is gone when this returns: for messages and specs alone.
  Result<Model> Load() const {
    SafetensorsBuilder builder;
    for (const auto& [name, view] : tensors) builder.Add(name, view);
    const std::string weights = builder.Build();
    const std::string config_text = config.Dump();
    return LoadModel(MakeEmbeddedFileSet("memory", {{"config.json", AsBytes(config_text)},
                                                    {"model.safetensors", AsBytes(weights)}}));
  }
  // The message of a load that must fail.
  std::string Fault() const {
    const Result<Model> model = Load();
    return model.ok() ? "no fault" : model.status().message();
  }

  Json config;
  std::shared_ptr<const Checkpoint> checkpoint;  // owns the bytes
  std::map<std::string, TensorView, std::less<>> tensors;
};

}  // namespace erne
