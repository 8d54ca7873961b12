// Logging facade: ERNE_LOG(kInfo, "engine") << "started";
//
// A line reads `YYYY-MM-DD HH:MM:SS,mmm LEVEL [component:line] text` (local time), or with
// LogFormat::kJson one JSON object per line. Each line reaches the sink with one write, so lines of
// different threads never mix and a reader that tails the file sees whole lines. Thread-safe.
// Errors of the sink itself are ignored: logging never fails its caller.
#pragma once

#include <new>
#include <sstream>
#include <string>
#include <string_view>

#include "base/status.h"

namespace erne {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogLevel min_level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::string
      file;  // empty: standard error. Parent folders are made; an existing file is appended to.
};

// Opens the sink. May be called again; affects lines written later. Colour codes (levels above
// info) are written only when the sink is a terminal.
Status InitLogging(const LogOptions& options);

bool LogEnabled(LogLevel level);

// What a line looks like on a terminal; a file never gets colours.
enum class LogColour { kOfLevel, kRed };

// Writes one line if its level is logged, whatever `text` holds: control characters and bytes that
// are no UTF-8 are spelled out, so that nothing in it passes for another line or for a command to
// the terminal.
void WriteLog(LogLevel level, std::string_view component, int line, std::string_view text,
              LogColour colour = LogColour::kOfLevel);

// One line under construction; written when it goes out of scope.
class LogLine {
 public:
  LogLine(LogLevel level, std::string_view component, int line)
      : level_(level), component_(component), line_(line) {}
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  ~LogLine() {
    try {
      WriteLog(level_, component_, line_, stream_.str());
    } catch (const std::bad_alloc&) {
      // A line that there is no memory for is lost: a destructor must not throw, least of all where
      // somebody reports that memory is short.
    }
  }
  std::ostream& stream() { return stream_; }

 private:
  LogLevel level_;
  std::string_view component_;
  int line_;
  std::ostringstream stream_;
};

}  // namespace erne

#define ERNE_LOG(level, component)             \
  !::erne::LogEnabled(::erne::LogLevel::level) \
      ? (void)0                                \
      : ::erne::CheckVoidify() &               \
            ::erne::LogLine(::erne::LogLevel::level, component, __LINE__).stream()
