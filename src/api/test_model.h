// A model for tests of the API: a tokenizer of bytes, and an executor that says what a script says.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/served_model.h"
#include "executor/executor.h"

namespace erne {

// Ids 0..255 are bytes, then three control tokens, then one token of several characters.
class TestTokenizer : public Tokenizer {
 public:
  static constexpr int32_t kEnd = 256;       // "</s>"
  static constexpr int32_t kSentence = 257;  // "<|end_of_sentence|>"
  static constexpr int32_t kBegin = 258;     // "<|begin_of_sentence|>"
  static constexpr int32_t kHello = 259;     // "你好"
  static constexpr int32_t kVocabSize = 260;

  std::vector<int32_t> Encode(std::span<const TextPiece> pieces) const override {
    std::vector<int32_t> tokens;
    for (const TextPiece& piece : pieces) {
      std::string_view rest = piece.text;
      while (!rest.empty()) {
        int32_t token = static_cast<uint8_t>(rest.front());
        size_t length = 1;
        for (int32_t special = kEnd; piece.trusted && special <= kBegin; ++special) {
          if (!rest.starts_with(Spelling(special))) continue;
          token = special;
          length = Spelling(special).size();
        }
        tokens.push_back(token);
        rest.remove_prefix(length);
      }
    }
    return tokens;
  }
  std::string TokenBytes(int32_t token) const override {
    if (token < 0 || token >= kVocabSize) return "";
    return token < kEnd ? std::string(1, static_cast<char>(token)) : std::string(Spelling(token));
  }
  bool IsSpecial(int32_t token) const override { return token >= kEnd && token <= kBegin; }
  std::optional<int32_t> PieceId(std::string_view piece) const override {
    for (int32_t token = 0; token < kVocabSize; ++token) {
      if (TokenBytes(token) == piece) return token;
    }
    return std::nullopt;
  }
  int64_t vocab_size() const override { return kVocabSize; }
  bool adds_prefix_space() const override { return false; }

  static std::vector<int32_t> Bytes(std::string_view text) {
    std::vector<int32_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<uint8_t>(c));
    return tokens;
  }

 private:
  static std::string_view Spelling(int32_t token) {
    switch (token) {
      case kEnd:
        return "</s>";
      case kSentence:
        return "<|end_of_sentence|>";
      case kBegin:
        return "<|begin_of_sentence|>";
      default:
        return "你好";
    }
  }
};

// After position p of any sequence comes script(p), whatever came before.
class ScriptedExecutor : public Executor {
 public:
  using Script = std::function<int32_t(int64_t position)>;
  // `gate`, when given, runs before each step; an error fails the step.
  ScriptedExecutor(Script script, int64_t max_context, std::function<Status()> gate)
      : script_(std::move(script)), gate_(std::move(gate)) {
    spec_.architecture = "ernie4_5";
    spec_.vocab_size = TestTokenizer::kVocabSize;
    spec_.max_positions = max_context;
    spec_.eos_tokens = {TestTokenizer::kEnd};
    limits_ = {.max_rows = 512,
               .max_logit_rows = 16,
               .max_sequences = 16,
               .max_context = max_context,
               .num_blocks = 16 * (max_context / kKvBlockSize + 1)};
  }

  Result<std::span<const float>> Run(const Batch& batch) override {
    if (gate_) ERNE_RETURN_IF_ERROR(gate_());
    logits_.clear();
    for (const SequenceRows& rows : batch) {
      if (rows.logits == SequenceRows::Logits::kNone) continue;
      const auto last = rows.start + static_cast<int64_t>(rows.tokens.size()) - 1;
      const size_t begin = logits_.size();
      logits_.resize(begin + TestTokenizer::kVocabSize, 0.0F);
      logits_[begin + static_cast<size_t>(script_(last))] =
          100.0F;  // certain, at any temperature in use
    }
    return std::span<const float>(logits_);
  }
  void SetRoutingTrace(RoutingTrace*) override {}
  const ModelSpec& spec() const override { return spec_; }
  const ExecutorLimits& limits() const override { return limits_; }
  ExecutorInfo info() const override { return {}; }

 private:
  Script script_;
  std::function<Status()> gate_;
  ModelSpec spec_;
  ExecutorLimits limits_;
  std::vector<float> logits_;
};

// The form of ERNIE's PT models, in constructs that every template has.
inline constexpr std::string_view kTestTemplate =
    "<|begin_of_sentence|>{% for m in messages %}"
    "{% if m['role'] == 'system' %}{{ m['content'] + '\\n' }}"
    "{% elif m['role'] == 'user' %}{{ 'User: ' + m['content'] + '\\n' }}"
    "{% elif m['role'] == 'assistant' %}{{ 'Assistant: ' + m['content'] }}<|end_of_sentence|>"
    "{% else %}{{ raise_exception('no role ' + m['role']) }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}Assistant: {% endif %}";

inline std::shared_ptr<ServedModel> MakeTestModel(ScriptedExecutor::Script script,
                                                  int64_t max_context = 1024,
                                                  std::function<Status()> gate = nullptr,
                                                  EngineOptions options = {}) {
  auto model = std::make_shared<ServedModel>();
  model->names = ServedNames("/models/Test-Model", {});
  model->root = "/models/Test-Model";
  model->created = 1700000000;
  model->engine = std::make_unique<Engine>(
      std::make_unique<ScriptedExecutor>(std::move(script), max_context, std::move(gate)), options);
  model->tokenizer = std::make_unique<TestTokenizer>();
  model->chat_template = ChatTemplate::Compile(kTestTemplate).value();
  model->defaults.eos_tokens = {TestTokenizer::kEnd};
  return model;
}

}  // namespace erne
