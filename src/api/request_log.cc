#include "api/request_log.h"

#include <utility>

#include "api/metrics.h"
#include "base/strings.h"

namespace erne {
namespace {

constexpr size_t kUsualIdLength = 160;

std::string Milliseconds(const char* name, double from, double to) {
  return StrCat(' ', name, '=', FormatFixed((to - from) * 1000, 1));
}

std::vector<RequestRecord> EmptyRecords() {
  std::vector<RequestRecord> records(RequestLog::kCapacity);
  for (RequestRecord& record : records) record.id.reserve(kUsualIdLength);
  return records;
}

}  // namespace

std::string DescribeRequest(const RequestRecord& request) {
  std::string line =
      StrCat("id=", request.id, " finish=", EndReason(request.finish),
             " prompt_tokens=", request.prompt_tokens, " cached_tokens=", request.cached_tokens,
             " generated_tokens=", request.generated_tokens);
  if (request.preemptions > 0) line += StrCat(" preemptions=", request.preemptions);
  if (request.started > 0) line += Milliseconds("queue_ms", request.arrived, request.started);
  if (request.first_token > 0) {
    line += Milliseconds("first_token_ms", request.arrived, request.first_token);
  }
  if (request.generated_tokens > 1 && request.last_token > 0) {
    const double intervals = static_cast<double>(request.generated_tokens - 1);
    line +=
        Milliseconds("mean_interval_ms", 0, (request.last_token - request.first_token) / intervals);
  }
  return line + Milliseconds("total_ms", request.arrived, request.ended);
}

RequestLog::RequestLog(LogLevel level) : level_(level), enabled_(LogEnabled(level)) {
  if (!enabled_) return;
  added_ = EmptyRecords();
  writing_ = EmptyRecords();
}

void RequestLog::Add(const RequestRecord& request) {
  if (!enabled_) return;
  const std::lock_guard lock(mutex_);
  if (count_ == kCapacity) {
    ++lost_;
    return;
  }
  added_[count_++] = request;  // the id goes into memory that is there
}

void RequestLog::Write() {
  if (!enabled_) return;
  size_t count = 0;
  int64_t lost = 0;
  {
    const std::lock_guard lock(mutex_);
    added_.swap(writing_);
    count = std::exchange(count_, 0);
    lost = std::exchange(lost_, 0);
  }
  for (size_t i = 0; i < count; ++i) {
    WriteLog(level_, "request", __LINE__, DescribeRequest(writing_[i]));
  }
  if (lost > 0) {
    WriteLog(level_, "request", __LINE__,
             StrCat(lost, " more requests ended than could be logged"));
  }
}

}  // namespace erne
