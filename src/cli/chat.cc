#include "cli/chat.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include <unistd.h>

#include "api/served_model.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strings.h"
#include "cli/chat_conversation.h"
#include "cli/chat_input.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/load_served_model.h"
#include "cli/make_executor.h"
#include "cli/serve_options.h"
#include "cli/terminal.h"

namespace erne {
namespace {

struct ChatOptions {
  ServeOptions serve;  // the model, and how it is loaded
  std::string system;
  std::vector<Json::Member> settings;
};

// Flags that are fields of the API's requests.
struct SamplingFlag {
  const char* name;
  const char* value_name;
  HelpText help;
};
const std::vector<SamplingFlag>& SamplingFlags() {
  static const std::vector<SamplingFlag> flags = {
      {"temperature",
       "X",
       {"How freely tokens are drawn; 0: always the most probable one (default: the model's)",
        "采样温度；0 表示总取最可能的 token（默认用模型的设置）"}},
      {"top-p",
       "X",
       {"Draw from the most probable tokens with this mass",
        "只从累计概率达到该值的 token 中采样"}},
      {"top-k",
       "N",
       {"Draw from this many most probable tokens; 0: all",
        "只从最可能的 N 个 token 中采样；0 为不限"}},
      {"min-p",
       "X",
       {"Drop tokens less probable than this share of the most probable one's",
        "丢弃概率低于最大概率该比例的 token"}},
      {"repetition-penalty",
       "X",
       {"Above 1: tokens that occurred become less probable", "大于 1 时压低出现过的 token"}},
      {"presence-penalty",
       "X",
       {"Taken from a token that occurred in the answer, -2 to 2",
        "对回答中出现过的 token 的惩罚"}},
      {"frequency-penalty",
       "X",
       {"Taken from a token each time that it occurred, -2 to 2", "按出现次数对 token 的惩罚"}},
      {"seed",
       "N",
       {"The same seed and input give the same answers", "相同的种子和输入得到相同的回答"}},
      {"max-tokens", "N", {"Most tokens of an answer", "单个回答的最大 token 数"}},
      {"stop", "TEXT", {"A text that ends the answer", "遇到该文本即结束回答"}},
  };
  return flags;
}

HelpText CommandHelp() {
  return {
      "/set NAME VALUE   how answers are drawn: temperature 0.7, top_p 0.9, seed 1, max_tokens\n"
      "                  100, stop TEXT ... (any field of the API; VALUE default: the model's)\n"
      "/set              shows what is set\n"
      "/system TEXT      the system message; without TEXT there is none\n"
      "/regen            answers the last message again\n"
      "/clear            forgets the conversation\n"
      "/save FILE        writes the conversation as a request of the API\n"
      "/quit             leaves, as ^D does\n"
      "A line that ends in \\ goes on; lines between \"\"\" and \"\"\" are one message; // begins "
      "a\n"
      "message with /. ^C stops the running answer.\n",
      "/set 名称 值      采样设置：temperature 0.7、top_p 0.9、seed 1、max_tokens 100、stop "
      "文本……\n"
      "                  （API 的任何字段；值写 default 表示用模型的设置）\n"
      "/set              显示当前设置\n"
      "/system 文本      系统消息；不写文本则取消\n"
      "/regen            重新回答上一条消息\n"
      "/clear            清空对话\n"
      "/save 文件        把对话保存为一个 API 请求\n"
      "/quit             离开，与 ^D 相同\n"
      "行末写 \\ 表示下一行继续；\"\"\" 与 \"\"\" 之间的各行是一条消息；以 // 开头的消息实际以 / "
      "开头。\n"
      "^C 停止正在生成的回答。\n"};
}

struct CommandLine {
  ChatOptions options;
  std::string help;  // not empty: print it and end
};

Result<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments, Language language) {
  CommandLine line;
  std::vector<std::string> model;
  std::vector<std::string> values(SamplingFlags().size());
  ServeOptions& serve = line.options.serve;
  FlagTable flags(
      "erne chat [MODEL] [flags]",
      {"Talks with a model in the terminal; each line of a pipe is a message. Without "
       "MODEL it is the embedded erne-mini.\n\n" +
           CommandHelp().en,
       "在终端里与模型对话；从管道读取时每行是一条消息。不给 MODEL 时使用内置的 erne-mini。"
       "\n\n" +
           CommandHelp().zh});
  flags.Positional(&model, 1);
  flags.Add("system", &line.options.system, "TEXT", {"The system message", "系统消息"});
  for (size_t i = 0; i < values.size(); ++i) {
    const SamplingFlag& flag = SamplingFlags()[i];
    flags.Add(flag.name, &values[i], flag.value_name, flag.help);
  }
  flags.Add(
      "chat-template", &serve.chat_template, "FILE",
      {"Jinja template in place of the model's own", "用此 Jinja 模板代替模型自带的对话模板"});
  flags.Add("generation-config", &serve.generation_config, "auto|vllm|DIR",
            {"Sampling defaults: the model's, OpenAI's, or those of another folder",
             "采样默认值：模型的、OpenAI 的，或另一个目录的"});
  flags
      .Add("max-model-len", &serve.max_model_len, "N",
           {"Longest conversation, in tokens", "对话的最大 token 数"})
      .Range(1, 1 << 30)
      .Word("auto", 0)
      .DefaultText("auto");
  AddThreadFlags(flags, &serve.threads);
  AddPrecisionFlags(flags, &serve.precision);
  ERNE_RETURN_IF_ERROR(flags.Parse(arguments));
  if (flags.help_requested()) {
    line.help = flags.Help(language);
    return line;
  }
  if (!model.empty()) serve.model = model[0];
  serve.executor = "cpu";
  serve.max_num_seqs = 1;  // an answer at a time; one that is being stopped may hold the next up
  for (size_t i = 0; i < values.size(); ++i) {
    const SamplingFlag& flag = SamplingFlags()[i];
    if (!flags.Given(flag.name)) continue;
    Result<Json::Member> setting = ParseChatSetting(flag.name, values[i]);
    if (!setting.ok()) return setting.status().WithContext(StrCat("--", flag.name));
    line.options.settings.push_back(*std::move(setting));
  }
  return line;
}

// One run of the command.
class Chat {
 public:
  Chat(std::shared_ptr<const ServedModel> model, Language language,
       std::shared_ptr<const Wakeup> tokens, std::shared_ptr<const Wakeup> interrupts)
      : model_(model),
        language_(language),
        conversation_(std::move(model)),
        tokens_(std::move(tokens)),
        interrupts_(std::move(interrupts)),
        reader_(STDIN_FILENO, interrupts_),
        shown_on_terminal_(::isatty(STDOUT_FILENO) == 1) {}

  Status Configure(const ChatOptions& options) {
    conversation_.SetSystem(options.system);
    for (const Json::Member& setting : options.settings) {
      ERNE_RETURN_IF_ERROR(conversation_.Set(setting));
    }
    return {};
  }

  // Until the input ends or somebody leaves. The exit code.
  int Run() {
    if (interactive()) Greet();
    std::string line;
    bool interrupted = false;  // by the last thing that happened
    while (!left_) {
      if (interactive()) Prompt();
      const LineReader::Event event = reader_.Next(line);
      if (event == LineReader::Event::kEnd) {
        if (interactive()) std::fputs("\n", stderr);
        if (auto entry = input_.Finish()) Take(*entry);
        break;
      }
      if (event == LineReader::Event::kInterrupt) {
        std::fputs("\n", stderr);
        if (interrupted) break;
        interrupted = true;
        input_.Discard();
        Notice({"^C once more or ^D leaves", "再按一次 ^C 或按 ^D 离开"});
        continue;
      }
      interrupted = false;
      if (auto entry = input_.Add(line)) interrupted = Take(*entry);
    }
    return failed_ && !interactive() ? 1 : 0;
  }

 private:
  // Somebody sits there, for whom there are prompts and ^C.
  bool interactive() const { return interrupts_ != nullptr; }
  std::string Say(const HelpText& text) const { return text.In(language_); }

  void Notice(const HelpText& text) const {
    std::fprintf(stderr, "(%s)\n", ForTerminal(Say(text)).c_str());
  }
  void Fault(const Status& status) {
    std::fprintf(stderr, "%s%s\n", Say({"error: ", "错误："}).c_str(),
                 ForTerminal(status.message()).c_str());
    failed_ = true;
  }

  void Greet() const {
    std::fprintf(stderr, "%s: %s\n", model_->names.front().c_str(), Describe(*model_).c_str());
    const int64_t context = model_->engine->max_context();
    Notice({StrCat("context ", context, " tokens; /help lists the commands, ^D leaves"),
            StrCat("上下文 ", context, " 个 token；/help 列出命令，^D 离开")});
  }
  void Prompt() const {
    std::fputs(input_.continues() ? ". " : "> ", stderr);
    std::fflush(stderr);
  }

  // Whether ^C stopped the answer.
  bool Take(const ChatEntry& entry) {
    if (entry.command.empty()) return Answer(conversation_.Ask(entry.text));
    if (entry.command == "regen") return Answer(conversation_.AskAgain());
    Obey(entry);
    return false;
  }

  void Obey(const ChatEntry& entry) {
    const std::string& command = entry.command;
    if (command == "help") {
      std::fputs(Say(CommandHelp()).c_str(), stderr);
    } else if (command == "clear") {
      conversation_.Clear();
      Notice({"the conversation is forgotten", "对话已清空"});
    } else if (command == "system") {
      conversation_.SetSystem(entry.text);
      if (entry.text.empty()) {
        Notice({"there is no system message now", "已取消系统消息"});
      } else {
        Notice({"the system message is set", "已设置系统消息"});
      }
    } else if (command == "set") {
      Set(entry.text);
    } else if (command == "save") {
      Save(entry.text);
    } else if (command == "quit" || command == "exit") {
      left_ = true;
    } else {
      const std::string nearest =
          Nearest(command, {"help", "clear", "system", "set", "regen", "save", "quit", "exit"});
      Fault(InvalidArgument(StrCat(
          "there is no command /", command,
          nearest.empty() ? "; /help lists them" : StrCat("; did you mean /", nearest, "?"))));
    }
  }

  void Set(const std::string& text) {
    const size_t end = text.find_first_of(" \t=");
    if (end == std::string::npos && !text.empty()) {
      return Fault(InvalidArgument(StrCat("/set ", text, ": the value is missing")));
    }
    if (!text.empty()) {
      const std::string_view value = Strip(std::string_view(text).substr(end + 1));
      const auto setting = ParseChatSetting(text.substr(0, end), std::string(value));
      if (!setting.ok()) return Fault(setting.status());
      if (const Status status = conversation_.Set(*setting); !status.ok()) return Fault(status);
    }
    std::string list;
    for (const auto& [name, value] : conversation_.settings().AsObject()) {
      list += StrCat(list.empty() ? "" : ", ", name, " ", value.Dump());
    }
    if (list.empty()) {
      Notice({"nothing is set: the model's own defaults hold", "没有设置：使用模型的默认值"});
    } else {
      Notice({list, list});
    }
  }

  void Save(const std::string& path) {
    if (path.empty()) return Fault(InvalidArgument("/save needs the name of a file"));
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << conversation_.Save();
    file.close();
    if (!file) return Fault(Internal(StrCat("cannot write ", path)));
    Notice({"saved as " + path, "已保存到 " + path});
  }

  // Shows an answer as it comes. Whether ^C stopped it.
  bool Answer(const Result<ChatConversation::Question>& question) {
    if (!question.ok()) {
      Fault(question.status());
      return false;
    }
    if (const int64_t dropped = question->dropped; dropped > 0) {
      Notice({StrCat("the context is full: the oldest ", dropped,
                     dropped == 1 ? " turn is" : " turns are", " no longer part of it"),
              StrCat("上下文已满：最早的 ", dropped, " 轮对话不再保留")});
    }
    const auto stream = std::make_shared<TokenStream>([tokens = tokens_] { tokens->Raise(); });
    const Status status = model_->engine->Submit(question->generation, stream);
    if (!status.ok()) {
      conversation_.SetAnswer("");
      Fault(status);
      return false;
    }
    AnswerText answer(*model_->tokenizer, question->text);
    std::string text;
    bool stopped = false;
    while (!answer.ended() && !left_ && !stopped) {
      WaitForEither(*tokens_, interrupts_.get());
      tokens_->Take();
      stopped = interactive() && interrupts_->Take();
      std::vector<TokenEvent> events;
      stream->Take(events);
      const Status fault = Show(events, answer, text);
      if (fault.ok()) continue;
      Fault(fault);
      break;
    }
    stream->Cancel();  // nothing where it is at its end
    conversation_.SetAnswer(text);
    if (text.empty() || text.back() != '\n') Print("\n");
    TellEnd(answer, stopped);
    return stopped;
  }

  Status Show(const std::vector<TokenEvent>& events, AnswerText& answer, std::string& text) {
    std::string fresh;
    Status fault;
    for (const TokenEvent& event : events) {
      if (answer.ended()) break;
      fault = event.error;
      if (!fault.ok()) break;
      fresh += answer.Add(event).text;
    }
    text += fresh;
    Print(fresh);
    return fault;
  }

  void TellEnd(const AnswerText& answer, bool stopped) const {
    if (stopped) {
      Notice({"stopped", "已停止"});
    } else if (answer.ended() && answer.end().reason == FinishReason::kLength) {
      Notice({StrCat("cut after ", answer.tokens(), " tokens, the most that it may have"),
              StrCat("回答达到上限，在 ", answer.tokens(), " 个 token 处截断")});
    } else if (answer.ended() && answer.end().reason == FinishReason::kRepetition) {
      Notice({"cut: it ran in a circle", "回答陷入循环，已截断"});
    }
  }

  // The reader of a pipe may have gone away, and then there is nobody to talk to.
  void Print(const std::string& text) {
    if (text.empty()) return;
    const std::string shown = shown_on_terminal_ ? ForTerminal(text) : text;
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    if (std::fflush(stdout) == 0) return;
    left_ = true;
    failed_ = true;
  }

  const std::shared_ptr<const ServedModel> model_;
  const Language language_;
  ChatConversation conversation_;
  const std::shared_ptr<const Wakeup> tokens_;      // the engine has some
  const std::shared_ptr<const Wakeup> interrupts_;  // null: not on a terminal
  LineReader reader_;
  const bool shown_on_terminal_;
  ChatInput input_;
  bool left_ = false;
  bool failed_ = false;
};

Result<std::shared_ptr<ServedModel>> Load(const ServeOptions& options, Language language) try {
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<const FileSet> files, OpenModelFiles(options));
  LoadProgress progress;
  const bool shows = ::isatty(STDERR_FILENO) == 1 && ::isatty(STDIN_FILENO) == 1;
  if (shows) {
    const char* what = language == Language::kChinese ? "加载模型" : "Loading";
    progress = [what, percent = -1](double fraction) mutable {
      const int now = static_cast<int>(fraction * 100);
      if (now != percent) std::fprintf(stderr, "\r%s %d %%", what, now);
      percent = now;
    };
  }
  Result<std::shared_ptr<ServedModel>> model = LoadServedModel(files, options, progress);
  if (shows) std::fputs("\r\033[K", stderr);
  if (!model.ok()) return model;
  ERNE_RETURN_IF_ERROR(WarmUp(**model, options));
  return model;
} catch (const std::exception& error) {  // std::bad_alloc
  return ResourceExhausted(StrCat("the model could not be loaded: ", error.what()));
}

// ^C ends the program until the model is loaded, and where nobody sits at the terminal.
Result<int> LoadAndRun(const ChatOptions& options, Language language) {
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<ServedModel> model, Load(options.serve, language));
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<Wakeup> tokens, Wakeup::Create());
  std::shared_ptr<Wakeup> interrupts;
  std::optional<CatchInterrupts> catching;
  if (::isatty(STDIN_FILENO) == 1) {
    ERNE_ASSIGN_OR_RETURN(interrupts, Wakeup::Create());
    catching.emplace(interrupts);
  }
  Chat chat(model, language, tokens, interrupts);
  ERNE_RETURN_IF_ERROR(chat.Configure(options));
  return chat.Run();
}

}  // namespace

int RunChat(const std::vector<std::string>& arguments) {
  const Language language = UserLanguage();
  const Result<CommandLine> line = ParseCommandLine(arguments, language);
  if (!line.ok()) return Fail("chat", line.status(), 2);
  if (!line->help.empty()) return PrintAndEnd("chat", line->help, 0);
  LogOptions log;
  log.min_level = LogLevel::kWarning;  // what a server tells about its start is no news here
  if (const Status status = InitLogging(log); !status.ok()) return Fail("chat", status, 1);
  const Result<int> exit_code = LoadAndRun(line->options, language);
  return exit_code.ok() ? *exit_code : Fail("chat", exit_code.status(), 1);
}

}  // namespace erne
