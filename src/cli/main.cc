// The program: finds the subcommand and hands it the rest of the command line.
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/strings.h"
#include "cli/bench.h"
#include "cli/flags.h"
#include "cli/health.h"
#include "cli/logits.h"
#ifdef ERNE_HAVE_SERVER
#include "cli/bench_serve.h"
#include "cli/chat.h"
#include "cli/fields.h"
#include "cli/inspect.h"
#include "cli/model_files.h"
#include "cli/run_batch.h"
#include "cli/serve.h"
#include "cli/tokenize.h"
#endif

namespace erne {
namespace {

struct Subcommand {
  const char* name;
  HelpText about;
  int (*run)(const std::vector<std::string>& arguments);  // returns the exit code
};

#ifndef ERNE_HAVE_SERVER
// A core build has the executors alone: no tokenizer, no templates, no server.
int NotInCore(const std::vector<std::string>&) {
  std::fputs(
      "erne: this is a core build (ERNE_SERVER=OFF), which lacks this command; build with "
      "ERNE_SERVER=ON\n",
      stderr);
  return 1;
}
constexpr auto RunServe = NotInCore;
constexpr auto RunChat = NotInCore;
constexpr auto RunInspect = NotInCore;
constexpr auto RunTokenize = NotInCore;
constexpr auto RunFields = NotInCore;
constexpr auto RunBatch = NotInCore;
#endif

int RunBenchHere(const std::vector<std::string>& arguments) {
  BenchDoors doors;
#ifdef ERNE_HAVE_SERVER
  doors.open = [](const std::string& model) { return OpenModelFiles(model); };
  doors.serve = RunBenchServe;
#endif
  return RunBench(arguments, doors);
}

const std::vector<Subcommand>& Subcommands() {
  static const std::vector<Subcommand> table = {
      {"serve",
       {"serve a model with an OpenAI-compatible API and a chat page",
        "运行模型，提供兼容 OpenAI 的 API 和聊天页面"},
       RunServe},
      {"chat", {"talk with a model in the terminal", "在终端里与模型对话"}, RunChat},
      {"run-batch",
       {"answer the requests of a file", "回答一个文件中的全部请求"},
       RunBatch},
      {"inspect",
       {"tell what a model is made of and how much memory it takes", "说明模型的结构和所需内存"},
       RunInspect},
      {"tokenize",
       {"turn a text into token ids, and back", "把文本转换成 token id，或转换回来"},
       RunTokenize},
      {"fields", {"list the fields that requests may have", "列出请求可以使用的字段"}, RunFields},
      {"health",
       {"ask a running server whether it is healthy", "询问运行中的服务是否正常"},
       RunHealth},
      {"logits",
       {"print logits, greedy ids and experts for token ids",
        "打印给定 token id 的 logits、贪心续写与所选专家"},
       RunLogits},
      {"bench",
       {"measure how fast a model runs here, and how fast it could",
        "测量模型在本机的运行速度及其上限"},
       RunBenchHere},
  };
  return table;
}

std::string Help(Language language) {
  const bool zh = language == Language::kChinese;
  std::string out = StrCat(
      "erne ", ERNE_VERSION, "\n\n",
      zh ? "用法：erne 命令 [参数]\n\n命令：\n" : "Usage: erne COMMAND [flags]\n\nCommands:\n");
  for (const Subcommand& command : Subcommands()) {
    std::string name = command.name;
    name.resize(12, ' ');
    out += StrCat("  ", name, command.about.In(language), "\n");
  }
  out += zh ? "\nerne 命令 --help 列出该命令的参数；erne --version 显示版本。\n"
            : "\nerne COMMAND --help lists a command's flags; erne --version prints the version.\n";
  return out;
}

int Unknown(const std::string& name) {
  std::vector<std::string> names;
  for (const Subcommand& command : Subcommands()) names.emplace_back(command.name);
  const std::string nearest = Nearest(name, names);
  std::fprintf(stderr, "erne: unknown command '%s'; %s\n", name.c_str(),
               nearest.empty() ? "erne --help lists the commands"
                               : StrCat("did you mean ", nearest, "?").c_str());
  return 2;
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fputs(Help(UserLanguage()).c_str(), stderr);
    return 2;
  }
  const std::string& name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(Help(UserLanguage()).c_str(), stdout);
    return 0;
  }
  if (name == "--version") {
    std::printf("erne %s\n", ERNE_VERSION);
    return 0;
  }
  for (const Subcommand& command : Subcommands()) {
    if (name == command.name) return command.run({arguments.begin() + 1, arguments.end()});
  }
  return Unknown(name);
}

// A parent may start us without standard streams. Their numbers would go to the first files and
// sockets that are opened, and messages meant for people would be written into those.
void HoldStandardStreams() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

// What was printed may still fail to be written: the disk is full, the reader has gone.
bool FlushStandardOutput() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

}  // namespace
}  // namespace erne

int main(int argc, char** argv) {
  // A reader that went away is an error of that one write, not the end of the program.
  std::signal(SIGPIPE, SIG_IGN);
  erne::HoldStandardStreams();
  const int code = erne::Main({argv + (argc > 0 ? 1 : 0), argv + argc});
  if (code == 0 && !erne::FlushStandardOutput()) {
    std::fputs("erne: cannot write to standard output\n", stderr);
    return 1;
  }
  return code;
}
