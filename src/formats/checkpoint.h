// The named tensors of a checkpoint folder: model.safetensors, or model.safetensors.index.json and
// its shards.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/file_set.h"
#include "base/status.h"
#include "tensor/tensor.h"

namespace erne {

// Immutable after Open; thread-safe. Views stay valid as long as the Checkpoint (it holds the
// mappings).
class Checkpoint {
 public:
  // Reads the headers of all shards (no tensor bytes). Errors name the file: no weights at all, a
  // shard that is missing, an index entry whose tensor is not in its shard, a tensor in two shards.
  static Result<std::shared_ptr<const Checkpoint>> Open(std::shared_ptr<const FileSet> files);

  // nullptr when absent.
  const TensorView* Find(std::string_view name) const;
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  const FileSet& files() const { return *files_; }
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  std::shared_ptr<const FileSet> files_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  uint64_t total_bytes_ = 0;
};

}  // namespace erne
