// The lines of a batch, in OpenAI's form and vLLM's: requests that are read, and answers that are
// written.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "api/http_types.h"
#include "base/status.h"

namespace erne {

// {"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{...}}
struct BatchLine {
  std::string custom_id;  // "line-7" where the line has none of its own
  HttpRequest request = {};
  Status fault = {};  // not ok: it is no request, and why
};

// number: of the line in its file, from 1.
BatchLine ParseBatchLine(std::string_view text, int64_t number);

// {"id":...,"custom_id":...,"response":{"status_code":...,"request_id":...,"body":...},
// "error":...}, with its line end. The body of an answer that is not 200 is null, and its error
// object is the line's.
std::string AnswerLine(std::string_view custom_id, const HttpResponse& response);
// Of a line that is no request: response is null.
std::string FaultLine(std::string_view custom_id, const Status& fault);

// The file of the answers, which grows by whole lines. One run at a time has it.
class BatchOutput {
 public:
  // Takes up what stands at `path`: the lines that are there count as answered, and a last line
  // that was not written to its end goes. Errors: it cannot be written, another run has it, or it
  // holds something else.
  static Result<std::unique_ptr<BatchOutput>> Open(const std::string& path);
  BatchOutput(const BatchOutput&) = delete;
  BatchOutput& operator=(const BatchOutput&) = delete;
  ~BatchOutput();

  // The custom_ids of lines that were there.
  const std::set<std::string, std::less<>>& answered() const { return answered_; }
  // Appends a line. It is there whole, or the file ends with a part of it that Open drops.
  Status Append(std::string_view line);

 private:
  BatchOutput(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Status ReadLines();
  Status ReadLine(std::string_view line, int64_t number);
  Status DropPartialLine(std::string_view line, int64_t end);
  Status Failure(std::string_view what) const;

  const int fd_;
  const std::string path_;
  std::set<std::string, std::less<>> answered_;
};

}  // namespace erne
