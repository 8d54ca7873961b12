#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>

#include "base/json.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace erne {
namespace {

struct Sink {
  std::mutex mutex;  // guards all below but min_level
  int fd = STDERR_FILENO;
  bool on_terminal = false;
  LogFormat format = LogFormat::kText;
  std::atomic<LogLevel> min_level{LogLevel::kInfo};
};

// Never destroyed: threads may log while the process exits.
Sink& GetSink() {
  static Sink& sink = *new Sink;
  return sink;
}

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "DEBUG";
    case LogLevel::kInfo: return "INFO";
    case LogLevel::kWarning: return "WARNING";
    case LogLevel::kError: return "ERROR";
  }
  return "?";
}

std::string Timestamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[40];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  std::snprintf(text + length, sizeof(text) - length, ",%03d", static_cast<int>(millis));
  return text;
}

void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a full disk must not stop the server
    text.remove_prefix(written);
  }
}

std::string FormatText(LogLevel level, std::string_view component, int line, std::string_view text,
                       bool on_terminal, LogColour colour) {
  const bool red = level == LogLevel::kError || colour == LogColour::kRed;
  const bool painted = on_terminal && (red || level == LogLevel::kWarning);
  const char* paint = red ? "\033[31m" : "\033[33m";
  return StrCat(painted ? paint : "", Timestamp(), " ", LevelName(level), " [", component, ":", line,
                "] ", OneLine(text), painted ? "\033[0m" : "", "\n");
}

std::string FormatJson(LogLevel level, std::string_view component, int line, std::string_view text) {
  Json entry = Json::MakeObject();
  entry.Set("time", Timestamp());
  entry.Set("level", LevelName(level));
  entry.Set("component", std::string(component));
  entry.Set("line", line);
  entry.Set("text", SanitizeUtf8(text));  // a file name may be any bytes
  return entry.Dump() + "\n";
}

}  // namespace

Status InitLogging(const LogOptions& options) {
  int fd = STDERR_FILENO;
  if (!options.file.empty()) {
    const std::filesystem::path path(options.file);
    std::error_code error;
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
    if (error) {
      return InvalidArgument(
          StrCat("cannot make the folder ", path.parent_path().string(), ": ", error.message()),
          "--log-file");
    }
    fd = ::open(options.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
      return InvalidArgument(StrCat("cannot open the log file ", options.file, ": ", std::strerror(errno)),
                             "--log-file");
    }
  }
  Sink& sink = GetSink();
  const std::lock_guard lock(sink.mutex);
  if (sink.fd != STDERR_FILENO) ::close(sink.fd);
  sink.fd = fd;
  sink.on_terminal = ::isatty(fd) == 1;
  sink.format = options.format;
  sink.min_level = options.min_level;
  return {};
}

bool LogEnabled(LogLevel level) { return level >= GetSink().min_level.load(std::memory_order_relaxed); }

void WriteLog(LogLevel level, std::string_view component, int line, std::string_view text,
              LogColour colour) {
  if (!LogEnabled(level)) return;
  Sink& sink = GetSink();
  const std::lock_guard lock(sink.mutex);
  WriteAll(sink.fd, sink.format == LogFormat::kJson
                        ? FormatJson(level, component, line, text)
                        : FormatText(level, component, line, text, sink.on_terminal, colour));
}

}  // namespace erne
