#include "formats/checkpoint.h"

#include <set>

#include "base/json.h"
#include "base/strings.h"
#include "formats/safetensors.h"

namespace erne {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

std::string FilePath(const FileSet& files, std::string_view name) {
  return StrCat(files.path(), "/", name);
}

using TensorMap = std::map<std::string, TensorView>;

Result<TensorMap> OpenShard(const FileSet& files, const std::string& name) {
  ERNE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, files.Map(name));
  Result<TensorMap> tensors = ParseSafetensors(bytes);
  if (!tensors.ok()) return tensors.status().WithContext(FilePath(files, name));
  return tensors;
}

// weight_map of the index: tensor name -> shard.
Result<std::map<std::string, std::string>> ReadIndex(const FileSet& files) {
  ERNE_ASSIGN_OR_RETURN(const std::string_view text, files.Text(kIndexFile));
  if (text.size() > kMaxSafetensorsHeader) {
    return InvalidArgument(
        StrCat(FilePath(files, kIndexFile), ": larger than ", kMaxSafetensorsHeader, " bytes"));
  }
  Result<Json> index = Json::Parse(text);
  if (!index.ok()) return index.status().WithContext(FilePath(files, kIndexFile));
  const Json* weight_map = index->Find("weight_map");
  if (weight_map == nullptr || !weight_map->is_object() || weight_map->AsObject().empty()) {
    return InvalidArgument(
        StrCat(FilePath(files, kIndexFile), ": `weight_map` must be an object with entries"));
  }
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : weight_map->AsObject()) {
    if (!shard.is_string()) {
      return InvalidArgument(StrCat(FilePath(files, kIndexFile), ": `weight_map` entry `",
                                    tensor.substr(0, 200), "` must be a file name, not ",
                                    shard.KindName()));
    }
    shards.emplace(tensor, shard.AsString());
  }
  return shards;
}

Status NoWeights(const FileSet& files) {
  std::string message =
      StrCat(files.path(), ": no weights here: neither ", kSingleFile, " nor ", kIndexFile);
  for (const std::string_view other : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (files.Has(other))
      message += StrCat(" (", other, " is not read: convert it to safetensors)");
  }
  return NotFound(std::move(message));
}

}  // namespace

Result<std::shared_ptr<const Checkpoint>> Checkpoint::Open(std::shared_ptr<const FileSet> files) {
  auto checkpoint = std::make_shared<Checkpoint>();
  checkpoint->files_ = files;
  // Which shard each tensor came from, for messages.
  std::map<std::string, std::string, std::less<>> origin;
  const auto add_shard = [&](const std::string& shard) -> Status {
    ERNE_ASSIGN_OR_RETURN(TensorMap tensors, OpenShard(*files, shard));
    for (auto& [name, view] : tensors) {
      const auto [earlier, fresh] = origin.emplace(name, shard);
      if (!fresh) {
        return InvalidArgument(
            StrCat(FilePath(*files, shard), ": tensor `", name, "` is also in ", earlier->second));
      }
      checkpoint->total_bytes_ += view.bytes();
      checkpoint->tensors_.emplace(name, std::move(view));
    }
    return {};
  };

  if (files->Has(kSingleFile)) {  // preferred over an index beside it, as in transformers
    ERNE_RETURN_IF_ERROR(add_shard(std::string(kSingleFile)));
    return std::shared_ptr<const Checkpoint>(std::move(checkpoint));
  }
  if (!files->Has(kIndexFile)) return NoWeights(*files);

  ERNE_ASSIGN_OR_RETURN(const auto weight_map, ReadIndex(*files));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map) shards.insert(shard);
  for (const std::string& shard : shards) {
    Status status = add_shard(shard);
    if (!status.ok()) return status.WithContext(StrCat("shard named by ", kIndexFile));
  }
  for (const auto& [tensor, shard] : weight_map) {
    const auto found = origin.find(tensor);
    if (found != origin.end() && found->second == shard) continue;
    return InvalidArgument(StrCat(FilePath(*files, kIndexFile), ": tensor `", tensor.substr(0, 200),
                                  "` is not in its shard ", shard));
  }
  return std::shared_ptr<const Checkpoint>(std::move(checkpoint));
}

const TensorView* Checkpoint::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace erne
