#include "chat/template.h"

#include <chrono>
#include <ctime>
#include <utility>

#include "base/strings.h"
#include "base/utf8.h"
#include "chat/jinja/error.h"
#include "chat/jinja/evaluator.h"
#include "chat/jinja/parser.h"

namespace erne {
namespace {

int64_t SystemLocalTime() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) return now;
  return now + local.tm_gmtoff;
}

}  // namespace

class ChatTemplate::Impl {
 public:
  jinja::Program program;
  TemplateLimits limits;
  Clock clock;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<const ChatTemplate>> ChatTemplate::Compile(std::string_view source,
                                                                  const TemplateLimits& limits,
                                                                  Clock clock) {
  if (const size_t bad = FindInvalidUtf8(source); bad != std::string_view::npos) {
    return InvalidArgument(StrCat("chat template: byte ", bad, " is not UTF-8"));
  }
  if (source.size() > limits.max_output) {
    return InvalidArgument(StrCat("chat template: larger than ", limits.max_output, " bytes"));
  }
  auto impl = std::make_unique<Impl>();
  impl->limits = limits;
  impl->clock = clock ? std::move(clock) : SystemLocalTime;
  try {
    impl->program = jinja::Parse(source, limits);
  } catch (const jinja::SyntaxError& error) {
    return InvalidArgument(
        StrCat("chat template line ", error.line, ", column ", error.column, ": ", error.message));
  }
  return std::unique_ptr<const ChatTemplate>(new ChatTemplate(std::move(impl)));
}

Result<std::vector<TextPiece>> ChatTemplate::Render(const Json& trusted,
                                                    const Json& untrusted) const {
  jinja::Evaluator evaluator(impl_->program, trusted, untrusted, impl_->limits, impl_->clock());
  try {
    return evaluator.Run();
  } catch (const jinja::RenderError& error) {
    if (error.verbatim) return InvalidArgument(error.message);
    return InvalidArgument(StrCat("chat template line ", evaluator.line(), ": ", error.message));
  }
}

}  // namespace erne
