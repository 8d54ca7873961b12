// What a load is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace erne::load {

// Both ends included.
struct Range {
  int64_t low = 0;
  int64_t high = 0;
};

enum class Mode {
  kClosed,  // so many clients, each asks again when it has its answer
  kFlood,   // all requests at once, each over a connection of its own
  kSteady,  // streams that never end; with long_every also a long prompt at an interval
  kVanish,  // waves of clients that go away together in the middle of their answers
  kPrefix,  // prompts that begin alike: the first of each kind, and those after it
};

struct LoadOptions {
  Mode mode = Mode::kClosed;
  std::string host = "127.0.0.1";
  std::string port = "8000";
  std::string api_key;
  std::string model;                // empty: the first that the server lists
  Json extra = Json::MakeObject();  // members of every request

  std::vector<int64_t> concurrency = {8};
  int64_t requests = 0;  // 0: by mode
  int64_t seconds = 0;   // 0: until all requests have been answered
  Range prompt_tokens = {128, 128};
  Range max_tokens = {128, 128};
  bool fixed_length = true;
  bool stream = true;
  bool logprobs = false;
  double temperature = 0;
  uint64_t seed = 0;
  int64_t timeout_s = 120;

  int64_t idle = 0;           // connections that do nothing
  int64_t slow = 0;           // clients that take their answers slowly
  int64_t long_every_ms = 0;  // 0: no long prompts
  int64_t long_prompt_tokens = 1500;
  int64_t wave = 500;
  int64_t wave_ms = 300;
  int64_t prefix_tokens = 1500;

  int64_t pid = 0;  // 0: the process is not looked at
  int64_t settle_s = 30;
  bool json = false;
};

// "closed", "flood", ...
const char* ModeName(Mode mode);

}  // namespace erne::load
