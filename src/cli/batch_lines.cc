#include "cli/batch_lines.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/errors.h"
#include "api/request_id.h"
#include "api/schema.h"
#include "base/json.h"
#include "base/strings.h"

namespace erne {
namespace {

constexpr size_t kReadBytes = 1024 * 1024;
// What every line of an output begins with.
constexpr std::string_view kLineHead = R"({"id":"erne-)";

Status LineFault(std::string_view what) { return InvalidArgument(std::string(what)); }

// What a line asks for, once its custom_id is known.
Status ReadRequest(const Json& line, HttpRequest& request) {
  const Json* method = Given(line, "method");
  if (method != nullptr && *method != Json("POST")) {
    return LineFault(StrCat("`method` must be \"POST\", not ", Shown(*method)));
  }
  const Json* url = Given(line, "url");
  if (url == nullptr) return LineFault("`url` is missing");
  if (*url != Json("/v1/chat/completions") && *url != Json("/v1/completions")) {
    return LineFault(
        StrCat("`url` must be \"/v1/chat/completions\" or \"/v1/completions\", not ", Shown(*url)));
  }
  const Json* body = Given(line, "body");
  if (body == nullptr || !body->is_object()) return LineFault("`body` must be an object");
  const Json* stream = Given(*body, "stream");
  if (stream != nullptr && *stream == Json(true)) {
    return LineFault("`body.stream` must be false: a batch has no streams");
  }
  request.method = "POST";
  request.path = url->AsString();
  request.body = body->Dump();
  return {};
}

std::string LineOf(std::string_view custom_id, std::string_view response, std::string_view error) {
  std::string line = StrCat(kLineHead, RandomId(), "\",\"custom_id\":");
  AppendJsonString(custom_id, line);
  return StrCat(line, ",\"response\":", response, ",\"error\":", error, "}\n");
}

}  // namespace

BatchLine ParseBatchLine(std::string_view text, int64_t number) {
  BatchLine line{.custom_id = StrCat("line-", number)};
  const Result<Json> json = Json::Parse(text);
  if (!json.ok()) {
    line.fault = json.status();
    return line;
  }
  const Json* id = json->is_object() ? Given(*json, "custom_id") : nullptr;
  if (id == nullptr || !id->is_string() || id->AsString().empty()) {
    line.fault = LineFault(json->is_object() ? "`custom_id` must be a string that is not empty"
                                             : "the line must be a JSON object");
    return line;
  }
  line.custom_id = id->AsString();
  line.fault = ReadRequest(*json, line.request);
  return line;
}

std::string AnswerLine(std::string_view custom_id, const HttpResponse& response) {
  std::string told = StrCat("{\"status_code\":", response.status, ",\"request_id\":");
  std::string_view id;
  for (const auto& [name, value] : response.headers) {
    if (name == "X-Request-Id") id = value;
  }
  AppendJsonString(id, told);
  const bool good = response.status == 200;
  told += StrCat(",\"body\":", good ? response.body : "null", "}");
  if (good) return LineOf(custom_id, told, "null");
  const Result<Json> body = Json::Parse(response.body);
  const Json* error = body.ok() ? Given(*body, "error") : nullptr;
  return LineOf(custom_id, told, error != nullptr ? error->Dump() : "{}");
}

std::string FaultLine(std::string_view custom_id, const Status& fault) {
  return LineOf(custom_id, "null", ErrorBody(fault).Find("error")->Dump());
}

Result<std::unique_ptr<BatchOutput>> BatchOutput::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) {
    return InvalidArgument(StrCat("--output-file: ", path, ": ", std::strerror(errno)));
  }
  std::unique_ptr<BatchOutput> output(new BatchOutput(fd, path));
  struct stat there {};
  if (::fstat(fd, &there) != 0 || !S_ISREG(there.st_mode)) {
    return output->Failure("it is no file that can be read again");
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return Unavailable(StrCat("--output-file: ", path, " is being written by another run"));
  }
  ERNE_RETURN_IF_ERROR(output->ReadLines());
  return output;
}

BatchOutput::~BatchOutput() { ::close(fd_); }

Status BatchOutput::Failure(std::string_view what) const {
  return InvalidArgument(StrCat("--output-file: ", path_, ": ", what));
}

Status BatchOutput::ReadLines() {
  std::string text;  // what was read and is not yet taken as lines
  std::string buffer(kReadBytes, '\0');
  int64_t number = 0;
  int64_t taken = 0;  // bytes of whole lines
  while (true) {
    const ssize_t count = ::read(fd_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failure(std::strerror(errno));
    if (count == 0) break;
    text.append(buffer, 0, static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
      ERNE_RETURN_IF_ERROR(ReadLine(std::string_view(text).substr(begin, end - begin), ++number));
    }
    taken += static_cast<int64_t>(begin);
    text.erase(0, begin);
  }
  return text.empty() ? Status() : DropPartialLine(text, taken);
}

Status BatchOutput::ReadLine(std::string_view line, int64_t number) {
  const Result<Json> json = Json::Parse(line);
  const Json* id = json.ok() ? Given(*json, "custom_id") : nullptr;
  if (id == nullptr || !id->is_string()) {
    return Failure(StrCat("line ", number, " is no answer of a batch; name another file"));
  }
  answered_.insert(id->AsString());
  return {};
}

Status BatchOutput::DropPartialLine(std::string_view line, int64_t end) {
  if (!line.starts_with(kLineHead) && !kLineHead.starts_with(line)) {
    return Failure("it does not end with an answer of a batch; name another file");
  }
  return ::ftruncate(fd_, end) == 0 ? Status() : Failure(std::strerror(errno));
}

Status BatchOutput::Append(std::string_view line) {
  while (!line.empty()) {
    const ssize_t count = ::write(fd_, line.data(), line.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failure(std::strerror(errno));
    line.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

}  // namespace erne
