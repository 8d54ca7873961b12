// Hostile templates: the text up to the first zero byte is the template, what follows is the
// context as JSON. Compiling and rendering must end with a result or an error that names a place,
// and give well-formed UTF-8 in runs that differ.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "chat/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t split = input.find('\0');
  // Small limits, so that every input is quick.
  erne::TemplateLimits limits;
  limits.max_depth = 60;
  limits.max_steps = 20'000;
  limits.max_output = 1 << 18;
  const auto compiled =
      erne::ChatTemplate::Compile(input.substr(0, split), limits, [] { return int64_t{0}; });
  if (!compiled.ok()) {
    ERNE_CHECK(compiled.status().message().starts_with("chat template"))
        << compiled.status().message();
    return 0;
  }
  erne::Json context = erne::Json::MakeObject();
  if (split != std::string_view::npos) {
    auto parsed = erne::Json::Parse(input.substr(split + 1));
    if (parsed.ok() && parsed->is_object()) context = *std::move(parsed);
  }
  const erne::Json trusted =
      erne::Json::Of({{"bos_token", "<s>"}, {"add_generation_prompt", true}});
  const auto pieces = (*compiled)->Render(trusted, context);
  if (!pieces.ok()) return 0;
  size_t total = 0;
  bool last_trusted = false;
  for (size_t i = 0; i < pieces->size(); ++i) {
    const erne::TextPiece& piece = (*pieces)[i];
    ERNE_CHECK(!piece.text.empty());
    ERNE_CHECK(erne::FindInvalidUtf8(piece.text) == std::string_view::npos) << piece.text;
    ERNE_CHECK(i == 0 || piece.trusted != last_trusted);
    last_trusted = piece.trusted;
    total += piece.text.size();
  }
  ERNE_CHECK(total <= limits.max_output);
  return 0;
}
