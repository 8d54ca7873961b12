#include "load/report.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <limits>

namespace erne::load {
namespace {

// Appends a printf.
__attribute__((format(printf, 2, 3))) void Print(std::string& out, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  out += text;
}

// In so many columns; what was not measured is a dash.
void PrintNumber(int width, int precision, double value, std::string& out) {
  if (std::isnan(value)) {
    Print(out, " %*s", width, "-");
  } else {
    Print(out, " %*.*f", width, precision, value);
  }
}

double Rate(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

double Share(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

void PrintGroup(const RunReport& run, Group& group, std::string& out) {
  Print(out, "%4lld %-8s %6lld %6lld %5lld %5lld %5lld %5lld %5lld %4lld %8.2f %8.1f",
        static_cast<long long>(run.concurrency), group.name.c_str(),
        static_cast<long long>(group.requests()), static_cast<long long>(group.answered),
        static_cast<long long>(group.refused_429), static_cast<long long>(group.refused_503),
        static_cast<long long>(group.failed), static_cast<long long>(group.left),
        static_cast<long long>(group.cut), static_cast<long long>(group.broken_characters),
        Rate(group.answered, run.wall_s), Rate(group.tokens, run.wall_s));
  for (const double percent : {50, 95, 99}) {
    PrintNumber(8, 1, Percentile(group.first_ms, percent), out);
  }
  for (const double percent : {50, 95, 99}) {
    PrintNumber(7, 2, Percentile(group.gap_ms, percent), out);
  }
  PrintNumber(6, 2, Percentile(group.gap_ms, 95) / Percentile(group.gap_ms, 50), out);
  PrintNumber(6, 1, 100 * Share(group.cached_tokens, group.prompt_tokens), out);
  out += '\n';
}

void PrintServer(RunReport& run, std::string& out) {
  Print(out, "     %.2f s; /health p50 %.2f ms, p99 %.2f ms, worst %.2f ms of %zu, %lld not ok",
        run.wall_s, Percentile(run.health_ms, 50), Percentile(run.health_ms, 99),
        Percentile(run.health_ms, 100), run.health_ms.size(),
        static_cast<long long>(run.health_not_ok));
  if (run.idle_open > 0) {
    Print(out, "; idle %lld, alive at the end %lld", static_cast<long long>(run.idle_open),
          static_cast<long long>(run.idle_alive));
  }
  if (run.end) {
    Print(out, "; blocks used at the end %lld, after %.0f ms",
          static_cast<long long>(run.end->kv_blocks_used), run.settle_ms);
  }
  if (run.before && run.after) {
    Print(out, "; RSS %.1f -> %.1f MiB (peak %.1f), threads %lld -> %lld, descriptors %lld -> %lld",
          run.before->rss_mib, run.after->rss_mib, run.after->peak_rss_mib,
          static_cast<long long>(run.before->threads), static_cast<long long>(run.after->threads),
          static_cast<long long>(run.before->descriptors),
          static_cast<long long>(run.after->descriptors));
  }
  out += '\n';
  for (const auto& [fault, count] : run.faults) {
    Print(out, "     FAULT %lld x %.400s\n", static_cast<long long>(count), fault.c_str());
  }
}

Json Percentiles(std::vector<float>& values) {
  return Json::Of({{"p50", Percentile(values, 50)},
                   {"p95", Percentile(values, 95)},
                   {"p99", Percentile(values, 99)},
                   {"max", Percentile(values, 100)},
                   {"count", values.size()}});
}

Json ToJson(const ProcessState& state) {
  return Json::Of({{"rss_mib", state.rss_mib},
                   {"peak_rss_mib", state.peak_rss_mib},
                   {"threads", state.threads},
                   {"descriptors", state.descriptors}});
}

Json ToJson(const RunReport& run, Group& group) {
  return Json::Of({{"name", group.name},
                   {"requests", group.requests()},
                   {"answered", group.answered},
                   {"refused_429", group.refused_429},
                   {"refused_503", group.refused_503},
                   {"failed", group.failed},
                   {"left", group.left},
                   {"cut", group.cut},
                   {"prompt_tokens", group.prompt_tokens},
                   {"cached_tokens", group.cached_tokens},
                   {"tokens", group.tokens},
                   {"pieces", group.pieces},
                   {"broken_characters", group.broken_characters},
                   {"requests_per_s", Rate(group.answered, run.wall_s)},
                   {"tokens_per_s", Rate(group.tokens, run.wall_s)},
                   {"first_ms", Percentiles(group.first_ms)},
                   {"gap_ms", Percentiles(group.gap_ms)},
                   {"whole_ms", Percentiles(group.whole_ms)}});
}

Json ToJson(RunReport& run) {
  Json groups = Json::MakeArray();
  for (Group& group : run.groups) groups.Push(ToJson(run, group));
  Json faults = Json::MakeObject();
  for (const auto& [fault, count] : run.faults) faults.Set(fault, count);
  Json json = Json::Of({{"mode", run.mode},
                        {"concurrency", run.concurrency},
                        {"wall_s", run.wall_s},
                        {"groups", std::move(groups)},
                        {"faults", std::move(faults)},
                        {"health_ms", Percentiles(run.health_ms)},
                        {"health_not_ok", run.health_not_ok},
                        {"idle_open", run.idle_open},
                        {"idle_alive", run.idle_alive}});
  if (run.end) {
    json.Set("end", Json::Of({{"running", run.end->running},
                              {"waiting", run.end->waiting},
                              {"kv_blocks_used", run.end->kv_blocks_used},
                              {"settle_ms", run.settle_ms}}));
  }
  if (run.before) json.Set("before", ToJson(*run.before));
  if (run.after) json.Set("after", ToJson(*run.after));
  return json;
}

}  // namespace

double Percentile(std::vector<float>& values, double percent) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double place = static_cast<double>(values.size() - 1) * percent / 100;
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double share = place - static_cast<double>(below);
  return values[below] + (static_cast<double>(values[above]) - values[below]) * share;
}

int64_t RunReport::failures() const {
  int64_t count = 0;
  for (const auto& [fault, times] : faults) count += times;
  return count;
}

std::string Table(std::vector<RunReport>& runs) {
  std::string out;
  Print(out, "%4s %-8s %6s %6s %5s %5s %5s %5s %5s %4s %8s %8s %8s %8s %8s %7s %7s %7s %6s %6s\n",
        "C", "group", "reqs", "ok", "429", "503", "fail", "left", "cut", "brk", "req/s", "tok/s",
        "TTFT p50", "p95", "p99", "gap p50", "p95", "p99", "95/50", "hit %");
  for (RunReport& run : runs) {
    for (Group& group : run.groups) PrintGroup(run, group, out);
    PrintServer(run, out);
  }
  return out;
}

Json ToJson(std::vector<RunReport>& runs) {
  Json all = Json::MakeArray();
  int64_t failures = 0;
  for (RunReport& run : runs) {
    failures += run.failures();
    all.Push(ToJson(run));
  }
  return Json::Of({{"runs", std::move(all)}, {"failures", failures}});
}

}  // namespace erne::load
