#include "model/model.h"

#include "base/strings.h"
#include "model/architecture.h"
#include "model/loader.h"
#include "model/quantization.h"

namespace erne {
namespace {

constexpr std::string_view kConfigFile = "config.json";
// Real ones are a few KB; those with per-layer quantisation tables reach a few hundred.
constexpr size_t kMaxConfigBytes = 16 << 20;
constexpr size_t kMaxConfigValues = 500'000;

std::string ConfigPath(const FileSet& files) { return StrCat(files.path(), "/", kConfigFile); }

Result<Json> ReadConfig(const FileSet& files) {
  const Result<std::string_view> read = files.Text(kConfigFile);
  if (!read.ok() && read.status().code() == StatusCode::kNotFound) {
    return NotFound(
        StrCat(read.status().message(), " (name the folder that holds the model's files)"));
  }
  ERNE_ASSIGN_OR_RETURN(const std::string_view text, read);
  if (text.size() > kMaxConfigBytes) {
    return InvalidArgument(StrCat(ConfigPath(files), ": larger than ", kMaxConfigBytes, " bytes"));
  }
  Result<Json> config = Json::Parse(text, {.max_depth = 64, .max_values = kMaxConfigValues});
  if (!config.ok()) return config.status().WithContext(ConfigPath(files));
  return config;
}

}  // namespace

Result<ModelSpec> SpecFromConfig(const Json& config) {
  ERNE_ASSIGN_OR_RETURN(const Architecture* architecture, ArchitectureOf(config));
  return architecture->read_spec(config);
}

Result<ModelSpec> LoadSpec(const FileSet& files) {
  ERNE_ASSIGN_OR_RETURN(const Json config, ReadConfig(files));
  Result<ModelSpec> spec = SpecFromConfig(config);
  if (!spec.ok()) return spec.status().WithContext(ConfigPath(files));
  return spec;
}

Result<Model> LoadModel(std::shared_ptr<const FileSet> files, const LoadOptions& options) {
  ERNE_ASSIGN_OR_RETURN(const Json config, ReadConfig(*files));
  const auto in_config = [&](const Status& status) {
    return status.WithContext(ConfigPath(*files));
  };
  const Result<const Architecture*> architecture = ArchitectureOf(config);
  if (!architecture.ok()) return in_config(architecture.status());
  Result<ModelSpec> spec = (*architecture)->read_spec(config);
  if (!spec.ok()) return in_config(spec.status());
  const Result<QuantizationSpec> quantization = ReadQuantization(config);
  if (!quantization.ok()) return in_config(quantization.status());

  ERNE_ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::Open(files));
  Result<LoadedWeights> loaded =
      LoadWeights(*spec, **architecture, *quantization, std::move(checkpoint), options.unpack);
  if (!loaded.ok()) return loaded.status().WithContext(files->path());
  Model model;
  model.spec = std::move(spec).value();
  model.weights = std::move(loaded->weights);
  model.precision = std::move(loaded->precision);
  return model;
}

}  // namespace erne
