#include "api/errors.h"

namespace erne {
namespace {

// vLLM's names where it has one, and names of the same form for the rest.
const char* ErrorType(int http_status) {
  switch (http_status) {
    case 400:
      return "BadRequestError";
    case 401:
      return "AuthenticationError";
    case 404:
      return "NotFoundError";
    case 405:
      return "MethodNotAllowedError";
    case 408:
      return "RequestTimeoutError";
    case 410:
      return "GoneError";
    case 413:
      return "PayloadTooLargeError";
    case 415:
      return "UnsupportedMediaTypeError";
    case 429:
      return "RateLimitError";
    case 431:
      return "HeadersTooLargeError";
    case 499:
      return "RequestCancelledError";
    case 501:
      return "NotImplementedError";
    case 503:
      return "ServiceUnavailableError";
    case 504:
      return "GatewayTimeoutError";
    default:
      return http_status >= 400 && http_status < 500 ? "BadRequestError" : "InternalServerError";
  }
}

}  // namespace

int HttpStatusOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kInvalidArgument:
      return 400;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kUnavailable:
      return 503;
    case StatusCode::kResourceExhausted:
      return 429;
    case StatusCode::kUnimplemented:
      return 501;
    case StatusCode::kDeadlineExceeded:
      return 504;
    case StatusCode::kCancelled:
      return 499;  // nginx's code for a client that closed its request
    case StatusCode::kDataLoss:
    case StatusCode::kInternal:
      return 500;
  }
  return 500;
}

Json ErrorBody(int http_status, std::string_view message, std::string_view param) {
  return Json::Of({{"error", Json::Of({{"message", message},
                                       {"type", ErrorType(http_status)},
                                       {"param", param.empty() ? Json() : Json(param)},
                                       {"code", http_status}})}});
}

Json ErrorBody(const Status& status) {
  return ErrorBody(HttpStatusOf(status.code()), status.message(), status.param());
}

HttpResponse ErrorResponse(int http_status, std::string_view message, std::string_view param,
                           int64_t retry_after_s) {
  HttpResponse response;
  response.status = http_status;
  response.body = ErrorBody(http_status, message, param).Dump();
  if (http_status == 429 || http_status == 503) {
    response.headers.emplace_back("Retry-After", std::to_string(retry_after_s));
  }
  return response;
}

HttpResponse ErrorResponse(const Status& status, int64_t retry_after_s) {
  return ErrorResponse(HttpStatusOf(status.code()), status.message(), status.param(),
                       retry_after_s);
}

}  // namespace erne
