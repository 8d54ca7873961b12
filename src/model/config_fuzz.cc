// Any text as config.json: a spec within its bounds or a message, and a checkpoint that does not
// fit it, quickly.
#include <cstdint>
#include <map>
#include <string>

#include "base/check.h"
#include "base/file_set.h"
#include "model/decoder_config.h"
#include "model/model.h"

namespace {

// An empty checkpoint: header length 2, "{}".
constexpr char kEmptyCheckpoint[] = "\x02\0\0\0\0\0\0\0{}";

void CheckSpec(const erne::ModelSpec& spec) {
  const auto sane = [](int64_t number) { return number > 0 && number <= erne::kMaxConfigNumber; };
  ERNE_CHECK(sane(spec.vocab_size) && sane(spec.hidden) && sane(spec.max_positions));
  ERNE_CHECK(sane(spec.num_layers()) && spec.num_layers() <= erne::kMaxLayers);
  const erne::AttentionSpec& attention = spec.attention;
  ERNE_CHECK(sane(attention.q_width()) && sane(attention.kv_width()) &&
             attention.head_dim % 2 == 0);
  ERNE_CHECK(attention.heads % attention.kv_heads == 0);
  ERNE_CHECK(spec.norm_eps >= 0 && attention.rope.theta >= 1);
  if (!spec.has_moe()) return;
  ERNE_CHECK(sane(spec.moe.intermediate) && spec.moe.shared_intermediate >= 0);
  ERNE_CHECK(spec.moe.shared_intermediate <= erne::kMaxConfigNumber);
  ERNE_CHECK(spec.moe.routing.top_k >= 1 && spec.moe.routing.top_k <= spec.moe.routing.experts);
  ERNE_CHECK(spec.moe.routing.experts <= erne::kMaxExperts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> text(reinterpret_cast<const std::byte*>(data), size);
  const auto weights = std::as_bytes(std::span(kEmptyCheckpoint, sizeof(kEmptyCheckpoint) - 1));
  const auto files =
      erne::MakeEmbeddedFileSet("fuzz", {{"config.json", text}, {"model.safetensors", weights}});
  const auto spec = erne::LoadSpec(*files);
  if (spec.ok()) CheckSpec(*spec);
  ERNE_CHECK(!erne::LoadModel(files).ok()) << "there are no weights";
  return 0;
}
