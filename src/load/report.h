// What a run measured, as numbers, as a table and as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "load/server_watch.h"

namespace erne::load {

// The value below which `percent` of all lie, interpolated; NaN when there are none. Sorts them.
double Percentile(std::vector<float>& values, double percent);

// Requests of one kind in a run.
struct Group {
  std::string name;
  int64_t answered = 0;  // whole and without a fault
  int64_t refused_429 = 0;
  int64_t refused_503 = 0;
  int64_t failed = 0;         // anything else, refusals in a wrong form too
  int64_t left = 0;           // clients that went away, as they were told
  int64_t cut = 0;            // still running when the run ended
  int64_t prompt_tokens = 0;  // of those answered
  int64_t cached_tokens = 0;
  int64_t tokens = 0;  // answered: as usage says; cut and left: pieces of text
  int64_t pieces = 0;
  int64_t broken_characters = 0;
  std::vector<float> first_ms = {};  // from the request to the first text
  std::vector<float> gap_ms = {};    // between pieces of text; 0 when they come together
  std::vector<float> whole_ms = {};  // from the request to the end of the answer

  int64_t requests() const { return answered + refused_429 + refused_503 + failed + left + cut; }
};

struct RunReport {
  std::string mode;
  int64_t concurrency = 0;
  double wall_s = 0;
  std::vector<Group> groups = {};
  std::map<std::string, int64_t> faults = {};  // of failed requests, and of what else must not be

  std::vector<float> health_ms = {};
  int64_t health_not_ok = 0;            // answers of /health other than 200, or none
  int64_t idle_open = 0;                // connections that did nothing
  int64_t idle_alive = 0;               // and answered at the end
  std::optional<HealthState> end = {};  // of the server, when it had time to settle
  double settle_ms = 0;                 // that this took
  std::optional<ProcessState> before = {};
  std::optional<ProcessState> after = {};

  int64_t failures() const;  // faults in all
};

std::string Table(std::vector<RunReport>& runs);
Json ToJson(std::vector<RunReport>& runs);

}  // namespace erne::load
