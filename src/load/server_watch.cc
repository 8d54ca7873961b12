#include "load/server_watch.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/json.h"
#include "base/strings.h"

namespace erne::load {
namespace {

std::optional<int64_t> Number(const Json& json, std::string_view name) {
  const Json* value = json.Find(name);
  if (value == nullptr || !value->is_int()) return std::nullopt;
  return value->AsInt();
}

}  // namespace

std::optional<HealthState> ParseHealth(std::string_view body) {
  const Result<Json> json = Json::Parse(body);
  if (!json.ok()) return std::nullopt;
  const auto running = Number(*json, "running");
  const auto waiting = Number(*json, "waiting");
  const auto blocks = Number(*json, "kv_blocks_used");
  if (!running || !waiting || !blocks) return std::nullopt;
  return HealthState{*running, *waiting, *blocks};
}

std::optional<ProcessState> ReadProcess(int64_t pid) {
  namespace fs = std::filesystem;
  const fs::path folder = StrCat("/proc/", pid);
  std::error_code error;
  const fs::directory_iterator descriptors(folder / "fd", error);
  if (error) return std::nullopt;
  ProcessState state;
  state.descriptors = std::distance(begin(descriptors), end(descriptors));
  std::ifstream status(folder / "status");
  std::string name;
  while (status >> name) {
    int64_t value = 0;
    if (name == "VmRSS:" && status >> value) state.rss_mib = static_cast<double>(value) / 1024;
    if (name == "VmHWM:" && status >> value) state.peak_rss_mib = static_cast<double>(value) / 1024;
    if (name == "Threads:" && status >> value) state.threads = value;
  }
  return state;
}

}  // namespace erne::load
