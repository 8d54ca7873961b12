#include "bench/timing.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/strings.h"

namespace erne::bench {
namespace {

// Three digits that count.
std::string Short(double value) {
  const int digits = value < 10 ? 2 : value < 100 ? 1 : 0;
  return FormatFixed(value, digits);
}

std::string Percent(double share) { return StrCat(FormatFixed(100 * share, 0), " %"); }

}  // namespace

std::function<Result<double>()> Timed(std::function<Status()> body) {
  return [body = std::move(body)]() -> Result<double> {
    const double begin = SteadySeconds();
    ERNE_RETURN_IF_ERROR(body());
    return SteadySeconds() - begin;
  };
}

Status TimeInTurns(std::vector<Case>& cases, int turns, RoofMeter& meter) {
  for (int turn = 0; turn < turns; ++turn) {
    meter.Measure();
    for (Case& timed : cases) {
      ERNE_ASSIGN_OR_RETURN(const double seconds, timed.run());
      timed.seconds.push_back(seconds);
    }
  }
  return {};
}

double OverlappedSeconds(const Case& timed, const Roof& roof, const ArithmeticRoof& arithmetic) {
  return std::max(timed.bytes / roof.read, timed.operations / (roof.*arithmetic.peak));
}

double SequentialSeconds(const Case& timed, const Roof& roof, const ArithmeticRoof& arithmetic) {
  return timed.bytes / roof.read + timed.operations / (roof.*arithmetic.peak);
}

std::string Table(const std::vector<Case>& cases, const Roof& roof,
                  const ArithmeticRoof& arithmetic) {
  std::string out = StrCat(
      "| | tok/s | slowest, fastest | GB/s | of the read roof | GOP/s | of the ", arithmetic.name,
      " roof | of both, overlapped; in turn |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Case& timed : cases) {
    const auto [low, high] = std::minmax_element(timed.seconds.begin(), timed.seconds.end());
    out += StrCat(
        "| ", timed.name, " | ", Short(timed.tokens_per_second()), " | ",
        Short(timed.tokens / *high), ", ", Short(timed.tokens / *low), " | ",
        Short(timed.bytes_per_second() / 1e9), " | ", Percent(timed.bytes_per_second() / roof.read),
        " | ", Short(timed.operations_per_second() / 1e9), " | ",
        Percent(timed.operations_per_second() / (roof.*arithmetic.peak)), " | ",
        Percent(OverlappedSeconds(timed, roof, arithmetic) / Median(timed.seconds)), "; ",
        Percent(SequentialSeconds(timed, roof, arithmetic) / Median(timed.seconds)), " |\n");
  }
  return out;
}

Json ToJson(const std::vector<Case>& cases, const Roof& roof, const ArithmeticRoof& arithmetic) {
  Json list = Json::MakeArray();
  for (const Case& timed : cases) {
    Json seconds = Json::MakeArray();
    for (const double value : timed.seconds) seconds.Push(value);
    const double median = Median(timed.seconds);
    list.Push(
        Json::Of({{"name", timed.name},
                  {"tokens", timed.tokens},
                  {"tokens_per_second", timed.tokens_per_second()},
                  {"seconds", std::move(seconds)},
                  {"bytes", timed.bytes},
                  {"operations", timed.operations},
                  {"read_gb_s", timed.bytes_per_second() / 1e9},
                  {"read_share", timed.bytes_per_second() / roof.read},
                  {"gop_s", timed.operations_per_second() / 1e9},
                  {"arithmetic_roof", arithmetic.name},
                  {"arithmetic_share", timed.operations_per_second() / (roof.*arithmetic.peak)},
                  {"roof_share", OverlappedSeconds(timed, roof, arithmetic) / median},
                  {"sequential_roof_share", SequentialSeconds(timed, roof, arithmetic) / median}}));
  }
  return list;
}

}  // namespace erne::bench
