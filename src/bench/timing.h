// Cases that are timed in turns, each beside the roof of that moment.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "bench/roof.h"
#include "bench/work.h"

namespace erne::bench {

// Something that can be run again and again, and what it does each time.
struct Case {
  std::string name;   // "prefill 512"
  double tokens = 0;  // that a run of it computes or generates
  double bytes = 0;   // that it has to read
  double operations = 0;
  std::function<Result<double>()> run;  // returns the seconds that it took
  std::vector<double> seconds = {};     // of each turn

  double tokens_per_second() const { return tokens / Median(seconds); }
  double bytes_per_second() const { return bytes / Median(seconds); }
  double operations_per_second() const { return operations / Median(seconds); }
};

// `body` as something to run: by the clock.
std::function<Result<double>()> Timed(std::function<Status()> body);

// Runs every case once in each turn, one after the other, so that a noisy machine is noisy for all
// of them, and measures the roof in each turn. The errors of the cases.
Status TimeInTurns(std::vector<Case>& cases, int turns, RoofMeter& meter);

// The least time that a case takes on a machine with this roof: when reading and computing overlap
// wholly, and when they follow each other.
double OverlappedSeconds(const Case& timed, const Roof& roof, const ArithmeticRoof& arithmetic);
double SequentialSeconds(const Case& timed, const Roof& roof, const ArithmeticRoof& arithmetic);

// Lines of a table in Markdown, its head among them.
std::string Table(const std::vector<Case>& cases, const Roof& roof,
                  const ArithmeticRoof& arithmetic);
// An array with an object for each case.
Json ToJson(const std::vector<Case>& cases, const Roof& roof, const ArithmeticRoof& arithmetic);

}  // namespace erne::bench
