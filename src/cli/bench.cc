#include "cli/bench.h"

#include <cstdio>

#include "base/strings.h"
#include "cli/bench_kernels.h"
#include "cli/bench_latency.h"
#include "cli/command.h"
#include "cli/flags.h"

namespace erne {
namespace {

struct Benchmark {
  const char* name;
  HelpText about;
  int (*run)(const std::vector<std::string>& arguments, const BenchDoors& doors);
};

int RunServe(const std::vector<std::string>& arguments, const BenchDoors& doors) {
  if (doors.serve != nullptr) return doors.serve(arguments, doors.open);
  return Fail("bench serve",
              Unimplemented("this is a core build (ERNE_SERVER=OFF), which has no server; build "
                            "with ERNE_SERVER=ON"),
              1);
}

const std::vector<Benchmark>& Benchmarks() {
  static const std::vector<Benchmark> table = {
      {"kernels",
       {"the stages of a step: products for given numbers of rows, attention at given depths",
        "一步中的各个阶段：给定行数的矩阵乘，给定深度处的注意力"},
       RunBenchKernels},
      {"latency",
       {"one sequence: prompts of given lengths, decoding at given depths",
        "单个序列：给定长度的提示，给定深度处的解码"},
       RunBenchLatency},
      {"throughput",
       {"several sequences side by side, without a server", "多个序列同时运行，不经过服务器"},
       RunBenchThroughput},
      {"serve",
       {"a server under load: tokens a second, first tokens, gaps (not in a core build)",
        "负载下的服务器：每秒 token 数、首个 token 的延迟、token 间隔（核心构建中没有）"},
       RunServe},
  };
  return table;
}

std::string Help(Language language) {
  const bool zh = language == Language::kChinese;
  std::string out =
      zh ? "用法：erne bench 测试 [模型] [参数]\n\n"
           "先核对结果，再计时；每个速度旁给出同一次运行中测得的机器上限。\n\n测试：\n"
         : "Usage: erne bench BENCHMARK [MODEL] [flags]\n\n"
           "Verifies, then times; prints each speed beside the roof of the machine, measured in "
           "the same run.\n\nBenchmarks:\n";
  for (const Benchmark& benchmark : Benchmarks()) {
    std::string name = benchmark.name;
    name.resize(12, ' ');
    out += StrCat("  ", name, benchmark.about.In(language), "\n");
  }
  out += zh ? "\nerne bench 测试 --help 列出该测试的参数。\n"
            : "\nerne bench BENCHMARK --help lists a benchmark's flags.\n";
  return out;
}

Status Unknown(const std::string& name) {
  std::vector<std::string> names;
  for (const Benchmark& benchmark : Benchmarks()) names.emplace_back(benchmark.name);
  return InvalidArgument(
      StrCat("there is no benchmark '", name, "', there are ", Join(names, ", ")));
}

}  // namespace

int RunBench(const std::vector<std::string>& arguments, const BenchDoors& doors) {
  if (arguments.empty()) {
    std::fputs(Help(UserLanguage()).c_str(), stderr);
    return 2;
  }
  const std::string& name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    return PrintAndEnd("bench", Help(UserLanguage()), 0);
  }
  for (const Benchmark& benchmark : Benchmarks()) {
    if (name == benchmark.name) {
      BenchDoors with_folders = doors;
      if (!with_folders.open) with_folders.open = OpenFolder;
      return benchmark.run({arguments.begin() + 1, arguments.end()}, with_folders);
    }
  }
  return Fail("bench", Unknown(name), 2);
}

}  // namespace erne
