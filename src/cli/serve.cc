// The life of a server: bind, load in the background while the API answers "loading", serve, drain,
// end.
//
// Signals. SIGTERM, SIGINT and SIGUSR1 are blocked in every thread and taken by the main thread
// alone, with sigwait; the loading thread ends by sending SIGUSR1 to it. So there is no handler,
// and nothing that must be async-signal-safe. After the first SIGTERM or SIGINT they get their
// default action back: a second one ends the process at once, whatever the draining does.
#include "cli/serve.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <pthread.h>
#include <sys/resource.h>

#include "api/metrics.h"
#include "api/served_model.h"
#include "api/service.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/strings.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/load_served_model.h"
#include "cli/serve_options.h"
#include "http/host_and_port.h"
#include "http/server.h"
#include "kv/block_pool.h"

namespace erne {
namespace {

using Clock = std::chrono::steady_clock;

// At the end, for answers whose last bytes are on their way (an error event, the end of a stream).
constexpr int64_t kLastBytesMs = 2000;
// Progress is logged when it passes one of these (in percent): few, so that all that matters stands
// in ten lines.
constexpr int kProgressMarks[] = {33, 67, 100};

sigset_t ServerSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGUSR1);
  return signals;
}

void EndAtTheNextSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) {
    std::signal(signal, SIG_DFL);
    sigaddset(&signals, signal);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

// Connections are descriptors: thousands of idle ones are no reason to refuse the next.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// The start fails: the log gets the reason, and so does the terminal when the log is a file.
int FailStart(const ServeOptions& options, const Status& status) {
  ERNE_LOG(kError, "serve") << status.message();
  return options.log.file.empty() ? 1 : Fail("serve", status, 1);
}

std::string Url(const std::string& host, uint16_t port) {
  return StrCat("http://", HostAndPort(host, port));
}

void LogCircumstances(const ServeOptions& options) {
  ERNE_LOG(kInfo, "serve") << "erne " << ERNE_VERSION << ", " << UsableCpus() << " CPUs";
  if (!options.device_note.empty()) ERNE_LOG(kWarning, "device") << options.device_note;
  for (const std::string& warning : options.warnings) ERNE_LOG(kWarning, "flags") << warning;
  if (options.dtype == "half" || options.dtype == "float16" || options.dtype == "bfloat16") {
    const std::string why =
        options.executor == "cuda"
            ? "products read float16 on the GPU whatever is asked for, and weights keep the type "
              "that they are stored in"
            : StrCat(
                  "the model runs on the CPU, where weights keep the type that they are stored "
                  "in and arithmetic is float32; ",
                  options.dtype, " is for a GPU");
    ERNE_LOG(kWarning, "flags") << "--dtype " << options.dtype << ": " << why;
  }
}

// Loads the model on a thread of its own and tells the main thread with SIGUSR1.
class BackgroundLoad {
 public:
  BackgroundLoad(const ServeOptions& options, std::shared_ptr<const FileSet> files,
                 Service& service, std::shared_ptr<Metrics> metrics)
      : options_(options),
        files_(std::move(files)),
        service_(service),
        metrics_(std::move(metrics)),
        main_thread_(::pthread_self()) {
    thread_ = std::thread([this] { Run(); });
  }
  BackgroundLoad(const BackgroundLoad&) = delete;
  BackgroundLoad& operator=(const BackgroundLoad&) = delete;
  ~BackgroundLoad() {
    if (thread_.joinable()) thread_.join();
  }

  // The model or why there is none, once; nothing while it loads.
  std::optional<Result<std::shared_ptr<ServedModel>>> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(result_, std::nullopt);
  }

 private:
  void Run() {
    Result<std::shared_ptr<ServedModel>> result = Load();
    {
      const std::lock_guard lock(mutex_);
      result_.emplace(std::move(result));
    }
    ::pthread_kill(main_thread_, SIGUSR1);
  }

  Result<std::shared_ptr<ServedModel>> Load() try {
    ERNE_ASSIGN_OR_RETURN(std::shared_ptr<ServedModel> model,
                          LoadServedModel(
                              files_, options_, [this](double fraction) { OnProgress(fraction); },
                              MemoryLedger::Process(), metrics_.get()));
    const Clock::time_point begin = Clock::now();
    ERNE_RETURN_IF_ERROR(WarmUp(*model, options_));
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    ERNE_LOG(kInfo, "engine") << "Engine started. Warm-up took "
                              << static_cast<int>(seconds.count() * 1000) << " ms.";
    return model;
  } catch (const std::exception& error) {  // std::bad_alloc
    return ResourceExhausted(StrCat("the model could not be loaded: ", error.what()));
  }

  void OnProgress(double fraction) {
    service_.SetProgress(fraction);
    const int percent = static_cast<int>(fraction * 100);
    int passed = logged_percent_;
    for (const int mark : kProgressMarks) {
      if (percent >= mark) passed = std::max(passed, mark);
    }
    if (passed == logged_percent_) return;
    logged_percent_ = passed;
    ERNE_LOG(kInfo, "serve") << "Loading weights: " << passed << " %";
  }

  const ServeOptions& options_;
  const std::shared_ptr<const FileSet> files_;
  Service& service_;
  const std::shared_ptr<Metrics> metrics_;
  const pthread_t main_thread_;
  int logged_percent_ = 0;  // loading thread only
  std::mutex mutex_;
  std::optional<Result<std::shared_ptr<ServedModel>>> result_;
  std::thread thread_;
};

// Binds both ports. A busy page port is no reason not to serve: the page is on the API port too.
Result<uint16_t> Bind(const ServeOptions& options, HttpServer& server, std::string& page_url) {
  const Result<uint16_t> bound = server.Listen(options.host, static_cast<uint16_t>(options.port));
  if (!bound.ok() && bound.status().code() == StatusCode::kUnavailable) {  // in use
    return Unavailable(StrCat(bound.status().message(), "; --port picks another"));
  }
  ERNE_ASSIGN_OR_RETURN(const uint16_t port, bound);
  page_url = Url(options.host, port);
  if (options.ui_port == 0 || options.ui_port == port) return port;
  const Result<uint16_t> page = server.Listen(options.host, static_cast<uint16_t>(options.ui_port));
  if (page.ok()) {
    page_url = Url(options.host, *page);
  } else {
    ERNE_LOG(kWarning, "serve") << page.status().message() << "; the page is at " << page_url
                                << " (--ui-port picks another port, 0 none)";
  }
  return port;
}

void AnnounceReady(const ServeOptions& options, const ServedModel& model, const std::string& url,
                   const std::string& page_url) {
  // The tutorials look for the folder's name in lower case; a name that was asked for is shown as
  // it was given.
  const std::string& first = model.names.front();
  ERNE_LOG(kInfo, "serve") << "Loaded model "
                           << (options.served_names.empty() ? ToLowerAscii(first) : first) << ": "
                           << Describe(model);
  ERNE_LOG(kInfo, "serve") << "Running on " << url
                           << (page_url == url ? " (API and page)"
                                               : StrCat(" (page: ", page_url, ")"));
  const EngineStats stats = model.engine->stats();
  ERNE_LOG(kInfo, "engine") << "Total num sequences: " << stats.running + stats.waiting
                            << ", total num tokens: " << stats.kv_blocks_used * kKvBlockSize;
}

// Running requests get their time. New ones are answered with 503 all the while, so that a load
// balancer sees a server that says no rather than one that is not there.
void ShutDown(const ServeOptions& options, Service& service, HttpServer& server,
              const ServedModel& model, int signal) {
  ERNE_LOG(kInfo, "serve") << (signal == SIGINT ? "SIGINT" : "SIGTERM")
                           << ": shutting down. Running answers have " << options.shutdown_timeout_s
                           << " s to finish; a second signal ends at once.";
  service.SetDraining();
  server.StopKeepAlive();
  model.engine->Shutdown(options.shutdown_timeout_s * 1000);
  server.StopAccepting();
  server.Drain(kLastBytesMs);
  ERNE_LOG(kInfo, "serve") << "Stopped.";
}

int Serve(const ServeOptions& options) {
  LogCircumstances(options);
  Result<std::shared_ptr<const FileSet>> files = OpenModelFiles(options);
  if (!files.ok()) return FailStart(options, files.status());

  ServiceOptions service_options;
  service_options.api_keys = options.api_keys;
  service_options.force_include_usage = options.force_include_usage;
  service_options.request_timeout_ms =
      static_cast<int64_t>(std::ceil(options.request_timeout_s * 1000));
  service_options.loading_names = NamesOf(**files, options);
  service_options.monitor.stats_interval_ms =
      options.disable_log_stats ? 0 : options.stats_interval_s * 1000;
  const auto metrics = std::make_shared<Metrics>();
  service_options.metrics = metrics;
  Service service(std::move(service_options));
  HttpServerOptions http_options;
  // With the executor's threads, the engine's, the front's, the monitor's and this one the process
  // has at most 8 threads more than CPUs.
  http_options.threads = std::clamp(UsableCpus(), 3, 4);
  http_options.urgent_path = "/health";
  HttpServer server(service, http_options);
  std::string page_url;
  const Result<uint16_t> port = Bind(options, server, page_url);
  if (!port.ok()) return FailStart(options, port.status());
  const std::string url = Url(options.host, *port);
  ERNE_LOG(kInfo, "serve") << "Starting OpenAI API server on " << url << "; loading "
                           << (*files)->path();

  BackgroundLoad load(options, *files, service, metrics);
  std::shared_ptr<ServedModel> model;
  const sigset_t signals = ServerSignals();
  int signal = 0;
  while (true) {
    if (::sigwait(&signals, &signal) != 0) continue;
    if (signal != SIGUSR1) break;
    std::optional<Result<std::shared_ptr<ServedModel>>> loaded = load.Take();
    if (!loaded) continue;  // a SIGUSR1 from elsewhere
    if (!loaded->ok()) return FailStart(options, loaded->status());
    model = std::move(*loaded).value();
    service.SetReady(model, [&] { AnnounceReady(options, *model, url, page_url); });
  }
  EndAtTheNextSignal();
  if (model == nullptr) {
    // Loading cannot be interrupted, and nobody waits for an answer: end without it.
    ERNE_LOG(kInfo, "serve") << "Stopped while loading.";
    std::_Exit(0);
  }
  ShutDown(options, service, server, *model, signal);
  return 0;
}

}  // namespace

int RunServe(const std::vector<std::string>& arguments) {
  const Result<ServeCommandLine> line = ParseServeFlags(arguments, UserLanguage());
  if (!line.ok()) return Fail("serve", line.status(), 2);
  if (!line->help.empty()) return PrintAndEnd("serve", line->help, 0);
  const ServeOptions& options = line->options;
  if (const Status status = InitLogging(options.log); !status.ok()) {
    return Fail("serve", status.WithContext("--log-file"), 1);
  }
  RaiseDescriptorLimit();
  const sigset_t signals = ServerSignals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread: they inherit it
  return Serve(options);
}

}  // namespace erne
