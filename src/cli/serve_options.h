// The command line of `erne serve`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "base/status.h"
#include "cli/flags.h"
#include "cli/make_executor.h"
#include "engine/engine.h"

namespace erne {

struct ServeOptions {
  std::string model;  // empty: the embedded erne-mini
  std::vector<std::string> served_names;
  std::string chat_template;                     // file; empty: the model's own
  Json template_variables = Json::MakeObject();  // for the chat template
  bool trust_request_chat_template = false;
  std::string tool_call_parser = "auto";  // or the name of a ToolCallForm
  std::string reasoning_parser = "auto";  // none: reasoning is content

  std::string host = "127.0.0.1";
  int64_t port = 8000;
  int64_t ui_port = 8001;  // 0: none
  std::vector<std::string> api_keys;
  bool force_include_usage = false;  // in every stream

  std::string device = "auto";
  std::string device_note;  // why `auto` found no GPU although this build could use one; else empty
  std::string executor;     // empty: by device
  ThreadFlags threads;
  PrecisionFlags precision;
  std::string dtype = "auto";
  int64_t max_model_len = 0;  // 0: as the model and the memory allow
  int64_t max_num_seqs = 64;
  int64_t max_num_batched_tokens = 512;
  int64_t max_num_queued_reqs = 1024;
  bool prefix_caching = true;
  SpeculationOptions speculation;
  double memory_utilization = 0.9;
  int64_t kv_cache_memory = 0;          // bytes of the KV pool; 0: as needed
  std::string kv_cache_dtype = "auto";  // kv_cache_dtype.h
  std::string generation_config = "auto";

  int64_t shutdown_timeout_s = 30;
  double request_timeout_s = 0;  // 0: none
  LogOptions log;
  int64_t stats_interval_s = 60;  // 0: no STATS lines
  bool disable_log_stats = false;
  bool log_requests = false;

  std::vector<std::string> warnings;  // about flags that have no effect
};

// Declares the flags that decide how much memory is taken: max-model-len, max-num-seqs,
// max-num-batched-tokens, gpu-memory-utilization,
// kv-cache-memory and kv-cache-dtype.
void AddMemoryFlags(FlagTable& flags, ServeOptions& options);

// Parses a command line with the flags of `erne serve` that say what is served and how it is
// computed, beside those that `flags` has already. An error names the flag and its value; nothing
// is checked where help is asked for.
Status ParseModelFlags(FlagTable& flags, const std::vector<std::string>& arguments,
                       ServeOptions& options);

struct ServeCommandLine {
  ServeOptions options;
  std::string help;  // not empty: print it and end
};

// An error names the flag and its value.
Result<ServeCommandLine> ParseServeFlags(const std::vector<std::string>& arguments,
                                         Language language);

}  // namespace erne
