// The lines go through the same Service that answers HTTP, in this process and without a socket.
// This thread is the strand of all of them: it reads lines, starts their requests, runs what their
// sessions post, and writes answers as they come. So many lines are open that the engine always
// has a full step to compute and some requests waiting.
#include "cli/run_batch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "api/http_types.h"
#include "api/service.h"
#include "base/check.h"
#include "base/strings.h"
#include "cli/batch_lines.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/load_served_model.h"
#include "cli/serve_options.h"

namespace erne {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBarInterval = std::chrono::milliseconds(200);  // on a terminal
constexpr auto kLineInterval = std::chrono::seconds(10);       // elsewhere
constexpr int64_t kBarWidth = 30;
// The engine drops answers that a stop string has ended with its next step.
constexpr auto kRetryInterval = std::chrono::milliseconds(5);

// Work for the thread of the run, from any thread.
class WorkQueue {
 public:
  void Post(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(work));
    }
    changed_.notify_one();
  }
  // Waits for work, and does it.
  void Run() {
    std::deque<std::function<void()>> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !posted_.empty(); });
      work.swap(posted_);
    }
    for (const auto& one : work) one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> posted_;  // guarded by mutex_
};

// Takes the whole answer of one line. All but Post is called by the thread of the run.
class LineWriter : public ResponseWriter {
 public:
  LineWriter(std::shared_ptr<WorkQueue> queue, BatchLine line)
      : queue_(std::move(queue)), line_(std::move(line)) {}

  const BatchLine& line() const { return line_; }
  // Nothing until it is complete.
  const std::optional<HttpResponse>& answer() const { return answer_; }

  // Nobody waits for the answer any more.
  void Disconnect() {
    const std::function<void()> callback = std::exchange(on_disconnect_, nullptr);
    on_drained_ = nullptr;
    if (callback) callback();
  }

  void Send(HttpResponse response) override {
    on_drained_ = nullptr;
    on_disconnect_ = nullptr;
    answer_ = std::move(response);
  }
  void Post(std::function<void()> work) override { queue_->Post(std::move(work)); }
  size_t pending_bytes() const override { return 0; }
  void OnDrained(std::function<void()> callback) override { on_drained_ = std::move(callback); }
  void OnDisconnect(std::function<void()> callback) override {
    on_disconnect_ = std::move(callback);
  }
  // Lines that ask for a stream are not started.
  void BeginStream(HttpResponse) override { ERNE_CHECK(false) << "a stream in a batch"; }
  void Write(std::string) override { ERNE_CHECK(false) << "a stream in a batch"; }
  void EndStream() override { ERNE_CHECK(false) << "a stream in a batch"; }

 private:
  const std::shared_ptr<WorkQueue> queue_;  // the engine may post when the run has ended
  const BatchLine line_;
  std::optional<HttpResponse> answer_;
  // These keep the request alive until it is answered.
  std::function<void()> on_drained_;
  std::function<void()> on_disconnect_;
};

// Tells on standard error how far the run is: a bar on a terminal, else a line now and then.
class Progress {
 public:
  explicit Progress(int64_t total)
      : total_(total), bar_(::isatty(STDERR_FILENO) == 1), next_(begin_ + Interval()) {}

  // done: lines that have an answer now; answered_here: of them, by this run.
  void Show(int64_t done, int64_t answered_here, bool last) {
    const Clock::time_point now = Clock::now();
    if (!last && now < next_) return;
    next_ = now + Interval();
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const double rate = static_cast<double>(answered_here) / std::max(seconds, 1e-3);
    std::string text = StrCat(done, "/", total_, "  ", FormatFixed(rate, 1), " lines/s");
    if (!last && answered_here > 0) {
      const auto left = static_cast<int64_t>(static_cast<double>(total_ - done) / rate);
      text += StrCat("  ", left / 60, " min ", left % 60, " s left");
    }
    if (bar_) {
      const int64_t full = total_ == 0 ? kBarWidth : kBarWidth * done / total_;
      text = StrCat("\r[", std::string(static_cast<size_t>(full), '#'),
                    std::string(static_cast<size_t>(kBarWidth - full), '.'), "] ", text, "\033[K",
                    last ? "\n" : "");  // and nothing of a longer line before it
    } else {
      text = StrCat("erne run-batch: ", text, "\n");
    }
    std::fputs(text.c_str(), stderr);
  }

 private:
  Clock::duration Interval() const {
    return bar_ ? Clock::duration(kBarInterval) : Clock::duration(kLineInterval);
  }

  const int64_t total_;
  const bool bar_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_;
};

class BatchRun {
 public:
  BatchRun(std::ifstream input, int64_t total, BatchOutput& output, Service& service,
           size_t most_open)
      : input_(std::move(input)),
        output_(output),
        service_(service),
        most_open_(most_open),
        progress_(total) {}

  BatchRun(const BatchRun&) = delete;
  BatchRun& operator=(const BatchRun&) = delete;
  ~BatchRun() {
    for (const std::shared_ptr<LineWriter>& writer : open_) writer->Disconnect();
  }

  // Until every line has an answer. An error: answers cannot be written.
  Status Run() {
    while (true) {
      while (open_.size() < most_open_ && StartNext()) TakeAnswers();
      ERNE_RETURN_IF_ERROR(fault_);
      progress_.Show(done_, answered_, /*last=*/open_.empty());
      if (open_.empty()) return {};
      queue_->Run();
      TakeAnswers();
    }
  }

  int64_t answered() const { return answered_; }
  int64_t failed() const { return failed_; }
  int64_t skipped() const { return done_ - answered_; }

 private:
  // False: there is nothing left to start.
  bool StartNext() {
    if (!refused_.empty()) {
      BatchLine line = std::move(refused_.front());
      refused_.pop_front();
      Start(std::move(line));
      return true;
    }
    std::string text;
    while (fault_.ok() && std::getline(input_, text)) {
      ++number_;
      if (Strip(text).empty()) continue;
      BatchLine line = ParseBatchLine(text, number_);
      if (!seen_.insert(line.custom_id).second) {
        line.fault = InvalidArgument(
            StrCat("`custom_id` ", line.custom_id, " is that of a line before this one"));
        line.custom_id = StrCat("line-", number_);
      }
      if (output_.answered().contains(line.custom_id)) {
        ++done_;
        continue;
      }
      if (!line.fault.ok()) {
        Write(FaultLine(line.custom_id, line.fault), /*good=*/false);
        continue;
      }
      Start(std::move(line));
      return true;
    }
    return false;
  }

  void Start(BatchLine line) {
    open_.push_back(std::make_shared<LineWriter>(queue_, std::move(line)));
    service_.Handle(open_.back()->line().request, open_.back());
  }

  // Writes the answers that have become complete.
  void TakeAnswers() {
    const auto complete = [](const auto& writer) { return writer->answer().has_value(); };
    const auto first = std::stable_partition(open_.begin(), open_.end(), std::not_fn(complete));
    const std::vector<std::shared_ptr<LineWriter>> answered(first, open_.end());
    open_.erase(first, open_.end());
    for (const std::shared_ptr<LineWriter>& writer : answered) {
      const HttpResponse& answer = *writer->answer();
      // Lines with many answers each may fill the queue: once more, when others have ended. (What
      // can never fit is a 400.)
      if (answer.status == 429) {
        most_open_ = std::max<size_t>(1, open_.size());
        refused_.push_back(writer->line());
        if (open_.empty()) std::this_thread::sleep_for(kRetryInterval);
      } else {
        Write(AnswerLine(writer->line().custom_id, answer), answer.status == 200);
      }
    }
  }

  void Write(const std::string& line, bool good) {
    if (fault_.ok()) fault_ = output_.Append(line);
    ++done_;
    ++answered_;
    failed_ += good ? 0 : 1;
  }

  std::ifstream input_;
  BatchOutput& output_;
  Service& service_;
  size_t most_open_;  // lines at a time
  Progress progress_;
  const std::shared_ptr<WorkQueue> queue_ = std::make_shared<WorkQueue>();
  std::vector<std::shared_ptr<LineWriter>> open_;  // lines whose requests run
  std::set<std::string> seen_;                     // custom_ids
  std::deque<BatchLine> refused_;                  // the server was full
  int64_t number_ = 0;                             // of the last line that was read
  int64_t done_ = 0;                               // lines that have an answer
  int64_t answered_ = 0;                           // of them, by this run
  int64_t failed_ = 0;                             // of these, with an error
  Status fault_ = {};
};

struct BatchOptions {
  ServeOptions serve;
  std::string input;
  std::string output;
};

Result<std::ifstream> OpenInput(const std::string& path) {
  // It is read twice, so that a pipe would not do.
  std::error_code error;
  std::ifstream file(path);
  if (!std::filesystem::is_regular_file(path, error) || !file) {
    return InvalidArgument(StrCat("--input-file: ", path, " is no file that can be read"));
  }
  return file;
}

Result<int64_t> CountLines(const std::string& path) {
  ERNE_ASSIGN_OR_RETURN(std::ifstream file, OpenInput(path));
  int64_t lines = 0;
  for (std::string text; std::getline(file, text);) lines += Strip(text).empty() ? 0 : 1;
  return lines;
}

Result<int> Run(const BatchOptions& options) {
  ERNE_ASSIGN_OR_RETURN(const int64_t total, CountLines(options.input));
  ERNE_ASSIGN_OR_RETURN(std::ifstream input, OpenInput(options.input));
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<BatchOutput> output,
                        BatchOutput::Open(options.output));
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<const FileSet> files, OpenModelFiles(options.serve));
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<ServedModel> model,
                        LoadServedModel(files, options.serve, [](double) {}));
  ServiceOptions service_options;
  service_options.monitor.stats_interval_ms = 0;
  Service service(service_options);
  service.SetReady(model);
  BatchRun batch(std::move(input), total, *output, service,
                 static_cast<size_t>(2 * options.serve.max_num_seqs));
  ERNE_RETURN_IF_ERROR(batch.Run());
  std::fprintf(
      stderr,
      "erne run-batch: %lld lines answered, %lld of them with an error; %lld had an answer "
      "already\n",
      static_cast<long long>(batch.answered()), static_cast<long long>(batch.failed()),
      static_cast<long long>(batch.skipped()));
  return batch.failed() == 0 ? 0 : 1;
}

}  // namespace

int RunBatch(const std::vector<std::string>& arguments) {
  BatchOptions options;
  FlagTable flags(
      "erne run-batch [MODEL] -i IN.jsonl -o OUT.jsonl [flags]",
      {"Answers the requests of a file, one JSON object a line: {\"custom_id\", \"method\": "
       "\"POST\", \"url\": \"/v1/chat/completions\" or \"/v1/completions\", \"body\"}. Answers are "
       "appended as they come; a run that was stopped goes on where it was.",
       "回答文件中的请求，每行一个 JSON 对象：{\"custom_id\"、\"method\": \"POST\"、\"url\": "
       "\"/v1/chat/completions\" 或 \"/v1/completions\"、\"body\"}。回答完成一条写一行；"
       "中断后再次运行会接着做。"});
  flags
      .Add("input-file", &options.input, "FILE",
           {"Requests; a fault of a line is its answer",
            "请求文件；某一行有误时，该行的回答说明原因"})
      .Alias("-i");
  flags
      .Add("output-file", &options.output, "FILE",
           {"Answers, in the order in which they end; lines that have one there are left out",
            "回答文件，按完成的先后排列；其中已有回答的行不再计算"})
      .Alias("-o");
  const Status parsed = ParseModelFlags(flags, arguments, options.serve);
  if (!parsed.ok()) return Fail("run-batch", parsed, 2);
  if (flags.help_requested()) return PrintAndEnd("run-batch", flags.Help(UserLanguage()), 0);
  for (const char* name : {"input-file", "output-file"}) {
    if (!flags.Given(name)) {
      return Fail("run-batch", InvalidArgument(StrCat("--", name, " is needed")), 2);
    }
  }
  if (const Status status = InitLogging(options.serve.log); !status.ok()) {
    return Fail("run-batch", status.WithContext("--log-file"), 1);
  }
  const Result<int> code = Run(options);
  return code.ok() ? *code : Fail("run-batch", code.status(), 1);
}

}  // namespace erne
