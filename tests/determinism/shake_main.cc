// erne_shake: the same answer every time, whatever else the engine does. A plain program without
// test framework, so that it runs on any machine that the core builds on.
//
//   erne_shake --rounds 200 tests/data/reference-models/* models/erne-mini
//
// Exit code: 0 all answers were the same, 1 one was not or something was never tried, 2 wrong
// command line, 77 there is no GPU for --executor cuda.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/file_set.h"
#include "cli/flags.h"
#include "cli/make_executor.h"
#include "executor/cuda/cuda_executor.h"
#include "shake.h"

namespace erne::shake {
namespace {

// Times as many as asked for, at most.
constexpr int64_t kMostRounds = 8;
// How CTest learns that a test was skipped.
constexpr int kSkipped = 77;

int Fail(const std::string& message, int code) {
  std::fprintf(stderr, "erne_shake: %s\n", message.c_str());
  return code;
}

bool TriedEverything(const Events& events) {
  return events.preemptions > 0 && events.prefix_hits > 0 && events.accepted_guesses > 0 &&
         events.rejected_guesses > 0 && events.cancelled > 0;
}

int Main(const std::vector<std::string>& arguments) {
  std::vector<std::string> folders;
  ShakeOptions options;
  int64_t rounds = 32;
  int64_t seed = 0;
  FlagTable flags("erne_shake FOLDER... [flags]",
                  {"Shakes the engine and compares its answers", "打乱引擎的工作并比较回答"});
  flags.Positional(&folders, 1000);
  flags.Add("executor", &options.executor, "NAME", {"Executor to use", "使用的计算后端"})
      .Choices(ExecutorNames());
  flags.Add("rounds", &rounds, "N", {"Rounds, each with other requests", "轮数"}).Range(1, 1e6);
  flags.Add("seed", &seed, "N", {"Of the first round", "第一轮的随机种子"}).Range(0, 1e9);
  flags.Add("perturb", &options.perturb,
            {"Changes an answer: the test must fail", "改动一个回答：测试必须失败"});
  if (const Status status = flags.Parse(arguments); !status.ok()) return Fail(status.message(), 2);
  if (folders.empty()) return Fail("no model folder is given", 2);
  if (options.executor == "cuda") {
    const auto device = FindCudaDevice();
    if (!device.ok()) return Fail(device.status().message(), kSkipped);
  }

  std::vector<std::shared_ptr<const Model>> models;
  for (const std::string& folder : folders) {
    const Result<std::shared_ptr<const FileSet>> files = OpenFolder(folder);
    if (!files.ok()) return Fail(files.status().message(), 2);
    Result<Model> model = LoadModel(*files);
    if (!model.ok()) return Fail(model.status().message(), 2);
    models.push_back(std::make_shared<const Model>(std::move(model).value()));
  }
  Events events;
  int64_t i = 0;
  // What happens in a round depends on the machine's pace, too: on until all was tried.
  for (; i < rounds || (i < kMostRounds * rounds && !TriedEverything(events)); ++i) {
    const size_t which = static_cast<size_t>(i) % models.size();
    const int64_t round_seed = seed + i;
    Round round(models[which], static_cast<uint32_t>(round_seed), options);
    const std::string difference = round.Run(events);
    if (difference.empty()) continue;
    std::printf("FAIL round %lld (%s): %s\n", static_cast<long long>(round_seed),
                folders[which].c_str(), difference.c_str());
    return 1;
  }
  std::printf(
      "%lld rounds, %lld answers the same bit for bit; %lld preemptions, %lld prompt tokens from "
      "the "
      "prefix cache, %lld right and %lld wrong guesses, %lld requests given up on the way\n",
      static_cast<long long>(i), static_cast<long long>(events.requests),
      static_cast<long long>(events.preemptions), static_cast<long long>(events.prefix_hits),
      static_cast<long long>(events.accepted_guesses),
      static_cast<long long>(events.rejected_guesses), static_cast<long long>(events.cancelled));
  if (!TriedEverything(events)) return Fail("something of that was never tried: more rounds", 1);
  return 0;
}

}  // namespace
}  // namespace erne::shake

int main(int argc, char** argv) {
  return erne::shake::Main(std::vector<std::string>(argv + 1, argv + argc));
}
