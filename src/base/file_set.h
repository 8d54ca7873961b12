// A model's files as named, read-only byte ranges: a folder on disk (memory-mapped) or a set embedded in the program.
// Everything that reads a model (weights, tokenizer, template, configuration) goes through this, so the
// embedded default model needs no second path.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace erne {

// Immutable after construction; thread-safe. The mappings live as long as the FileSet: hold it by shared_ptr.
class FileSet {
 public:
  FileSet() = default;
  FileSet(const FileSet&) = delete;
  FileSet& operator=(const FileSet&) = delete;
  virtual ~FileSet() = default;

  // What to call this set in messages and as `root` in /v1/models: the folder's path, or "embedded:erne-mini".
  virtual const std::string& path() const = 0;
  // What to call file `name` in messages.
  virtual std::string PathOf(std::string_view name) const;
  // Whether there is a file `name`; also when it cannot be read (a link to nothing): Map says why.
  virtual bool Has(std::string_view name) const = 0;
  // The bytes of file `name` (no folders in it). NotFound when absent; the message names the path.
  virtual Result<std::span<const std::byte>> Map(std::string_view name) const = 0;
  // DataLoss, naming the file, when one that was mapped has changed since; see mapped_file.h for
  // those that become shorter.
  virtual Status CheckUnchanged() const { return {}; }
  // Gives the memory of mapped bytes back until they are looked at again.
  virtual void ReleasePages() const {}

  // The same bytes as text.
  Result<std::string_view> Text(std::string_view name) const;
};

// The files of the folder `path`, mapped when first asked for. NotFound or InvalidArgument when it is no readable folder.
Result<std::shared_ptr<const FileSet>> OpenFolder(const std::string& path);

// A set of byte ranges that live for ever (embedded in the program).
std::shared_ptr<const FileSet> MakeEmbeddedFileSet(std::string path,
                                                   std::map<std::string, std::span<const std::byte>> files);

}  // namespace erne
