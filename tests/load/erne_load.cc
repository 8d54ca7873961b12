// erne_load: puts load on a server with OpenAI's chat API and checks every answer. README.md.
//
// Exit code: 0 nothing was wrong (refusals in the right form are nothing wrong), 1 something was, 2
// wrong command line.
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "command_line.h"
#include "load/report.h"
#include "load/run.h"

namespace erne::load {
namespace {

// Thousands of connections are the point.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int Main(const std::vector<std::string>& arguments) {
  const Result<CommandLine> line = ParseCommandLine(arguments);
  if (!line.ok()) {
    std::fprintf(stderr, "erne_load: %s\n", line.status().message().c_str());
    return 2;
  }
  if (!line->help.empty()) {
    std::fputs(line->help.c_str(), stdout);
    return 0;
  }
  std::signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();
  const LoadOptions& options = line->options;
  const Result<Target> target = FindTarget(options);
  if (!target.ok()) {
    std::fprintf(stderr, "erne_load: http://%s:%s: %s\n", options.host.c_str(),
                 options.port.c_str(), target.status().message().c_str());
    return 1;
  }
  std::vector<RunReport> runs = RunLoad(options, *target);
  const std::string text = options.json ? ToJson(runs).Dump() + "\n" : Table(runs);
  std::fputs(text.c_str(), stdout);
  for (const RunReport& run : runs) {
    if (run.failures() > 0) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace erne::load

int main(int argc, char** argv) { return erne::load::Main({argv + 1, argv + argc}); }
