// The real server around an executor, in this process, on a free port of the loopback.
#pragma once

#include <cstdint>
#include <memory>

#include "api/served_model.h"
#include "api/service.h"
#include "base/file_set.h"
#include "base/status.h"
#include "engine/engine.h"
#include "executor/executor.h"
#include "http/server.h"

namespace erne {

// Serves from Start until it is destroyed, then cuts what still runs.
class BenchServer {
 public:
  // files: tokenizer, chat template and sampling defaults; null: numbers for tokens
  // (number_tokenizer.h), and prompts as they come.
  static Result<std::unique_ptr<BenchServer>> Start(std::unique_ptr<Executor> executor,
                                                    const std::shared_ptr<const FileSet>& files,
                                                    const EngineOptions& options);
  BenchServer(const BenchServer&) = delete;
  BenchServer& operator=(const BenchServer&) = delete;
  ~BenchServer();

  uint16_t port() const { return port_; }

 private:
  BenchServer();

  Service service_;
  HttpServer server_;
  std::shared_ptr<ServedModel> model_;
  uint16_t port_ = 0;
};

}  // namespace erne
