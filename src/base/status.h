// Expected failures are values: Status (no payload) and Result<T> (a T or the Status that explains its absence).
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace erne {

// What went wrong, in kinds that a caller can act on. api/errors maps them to HTTP codes in one place.
enum class StatusCode {
  kOk,
  kInvalidArgument,    // the caller's input is wrong: HTTP 400
  kNotFound,           // a named thing does not exist: HTTP 404
  kUnavailable,        // right now, not for ever (loading, draining): HTTP 503
  kResourceExhausted,  // queue or memory full: HTTP 429
  kUnimplemented,      // understood, and not supported: HTTP 501
  kDataLoss,           // a file is truncated or corrupt
  kDeadlineExceeded,   // the request's time is up: HTTP 504
  kCancelled,          // nobody waits for the answer any more
  kInternal,           // our own fault: HTTP 500
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message, std::string param = "")
      : code_(code), message_(std::move(message)), param_(std::move(param)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  // One sentence for a person: what and where.
  const std::string& message() const { return message_; }
  // The request field or flag at fault; empty when there is none.
  const std::string& param() const { return param_; }

  // The same failure with `context` (a file, a tensor) named first.
  Status WithContext(const std::string& context) const {
    return ok() ? *this : Status(code_, context + ": " + message_, param_);
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
  std::string param_;
};

inline Status InvalidArgument(std::string message, std::string param = "") {
  return {StatusCode::kInvalidArgument, std::move(message), std::move(param)};
}
inline Status NotFound(std::string message, std::string param = "") {
  return {StatusCode::kNotFound, std::move(message), std::move(param)};
}
inline Status Unavailable(std::string message) {
  return {StatusCode::kUnavailable, std::move(message)};
}
inline Status ResourceExhausted(std::string message) {
  return {StatusCode::kResourceExhausted, std::move(message)};
}
inline Status Unimplemented(std::string message, std::string param = "") {
  return {StatusCode::kUnimplemented, std::move(message), std::move(param)};
}
inline Status DeadlineExceeded(std::string message) {
  return {StatusCode::kDeadlineExceeded, std::move(message)};
}
inline Status DataLoss(std::string message) { return {StatusCode::kDataLoss, std::move(message)}; }
inline Status Cancelled(std::string message) { return {StatusCode::kCancelled, std::move(message)}; }
inline Status Internal(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

// A value, or the reason why there is none. Reading the value of a failed Result is a CHECK failure.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {   // NOLINT(google-explicit-constructor)
    ERNE_CHECK(!status_.ok()) << "a Result without a value needs a reason";
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & {
    ERNE_CHECK(ok()) << status_.message();
    return *value_;
  }
  const T& value() const& {
    ERNE_CHECK(ok()) << status_.message();
    return *value_;
  }
  T&& value() && {
    ERNE_CHECK(ok()) << status_.message();
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace erne

#define ERNE_CONCAT_INNER(a, b) a##b
#define ERNE_CONCAT(a, b) ERNE_CONCAT_INNER(a, b)

// Leaves the function with the Status of `expr` unless that is ok.
#define ERNE_RETURN_IF_ERROR(expr)                        \
  do {                                                    \
    ::erne::Status erne_status_ = (expr);                 \
    if (!erne_status_.ok()) return erne_status_;          \
  } while (false)

// `lhs = value of expr`, or leaves the function with its Status. `lhs` may declare a variable.
#define ERNE_ASSIGN_OR_RETURN(lhs, expr) \
  ERNE_ASSIGN_OR_RETURN_IMPL(ERNE_CONCAT(erne_result_, __LINE__), lhs, expr)
#define ERNE_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                               \
  if (!result.ok()) return result.status();           \
  lhs = std::move(result).value()
