#include "cli/tokenize.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/model_files.h"
#include "cli/read_input.h"
#include "cli/token_ids.h"
#include "text/tokenizer.h"

namespace erne {
namespace {

// Far above any context; the ids of a text take about its size again.
constexpr size_t kMaxInputBytes = size_t{256} << 20;
// Bytes that a difference shows.
constexpr size_t kShownBytes = 24;

struct TokenizeOptions {
  std::vector<std::string> model;
  std::string text;
  std::string file;
  bool decode = false;
  bool pieces = false;
  bool check = false;
  bool special = false;
};

// What the command prints, and how it ends.
struct Outcome {
  std::string out;
  int exit_code = 0;
};

void AddFlags(FlagTable& flags, TokenizeOptions& options) {
  flags.Positional(&options.model, 1);
  flags.Add("text", &options.text, "TEXT", {"The text", "文本"});
  flags.Add("file", &options.file, "FILE",
            {"A file with the text instead, every byte of it; - is standard input",
             "改从文件读取文本（逐字节原样）；- 表示标准输入"});
  flags.Add("special", &options.special,
            {"Control tokens that are spelled in the text count as such; else they are plain text",
             "文本中写出的控制 token 按控制 token 处理；否则只是普通文字"});
  flags.Add("pieces", &options.pieces,
            {"One line for each token: its id, a tab, its text (\\n, \\xe4 and the like for what "
             "is no printable character)",
             "每个 token 一行：id、制表符、对应文字（不可显示的写作 \\n、\\xe4 等）"});
  flags.Add("decode", &options.decode,
            {"The input holds token ids ([5,6,7] or 5 6 7); prints their text",
             "输入为 token id（[5,6,7] 或 5 6 7）；打印对应的文本"});
  flags.Add("check", &options.check,
            {"Tokenizes, turns the ids back into text and says whether it is the same; exits with "
             "1 when it is not",
             "分词后再还原，说明是否与原文相同；不同则以 1 退出"});
}

Status CheckUsage(const FlagTable& flags, const TokenizeOptions& options) {
  if (flags.Given("text") == flags.Given("file")) {
    return InvalidArgument("give the input with either --text or --file (- is standard input)");
  }
  if (options.check && (options.decode || options.pieces)) {
    return InvalidArgument("--check goes with neither --decode nor --pieces", "--check");
  }
  if (options.decode && options.special) {
    return InvalidArgument("--special is about text, and --decode takes ids", "--special");
  }
  return {};
}

std::string FormatPieces(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) {
    out += std::to_string(id) + '\t' + OneLine(tokenizer.TokenBytes(id), /*spell_backslash=*/true) +
           '\n';
  }
  return out;
}

// A few characters of `text` from byte `begin` on, for a message.
std::string Excerpt(const std::string& text, size_t begin) {
  std::string_view part = std::string_view(text).substr(std::min(begin, text.size()));
  const bool cut = part.size() > kShownBytes;
  part = part.substr(0, kShownBytes);
  part = part.substr(0, CompleteUtf8Prefix(part));
  return StrCat("'", OneLine(part, /*spell_backslash=*/true), cut ? "..." : "", "'");
}

Outcome Check(const std::string& text, const std::string& back, size_t tokens, bool zh) {
  if (text == back) {
    return {zh ? StrCat("相同：", tokens, " 个 token，", text.size(), " 字节\n")
               : StrCat("equal: ", tokens, " tokens, ", text.size(), " bytes\n"),
            0};
  }
  const auto differs = std::mismatch(text.begin(), text.end(), back.begin(), back.end());
  auto at = static_cast<size_t>(differs.first - text.begin());
  // From the beginning of the character that differs.
  while (at > 0 && at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  const std::string before = Excerpt(text, at);
  const std::string after = Excerpt(back, at);
  return {zh ? StrCat("不同：从第 ", at, " 字节起，", before, " 还原成了 ", after, "\n")
             : StrCat("different from byte ", at, ": ", before, " comes back as ", after, "\n"),
          1};
}

Result<Outcome> Tokenize(const FlagTable& flags, const TokenizeOptions& options, bool zh) {
  ERNE_ASSIGN_OR_RETURN(const std::shared_ptr<const FileSet> files,
                        OpenModelFiles(options.model.empty() ? "" : options.model[0]));
  ERNE_ASSIGN_OR_RETURN(const std::unique_ptr<const Tokenizer> tokenizer, LoadTokenizer(*files));
  const std::string flag = flags.Given("file") ? "--file" : "--text";
  std::string input = options.text;
  if (flags.Given("file")) {
    ERNE_ASSIGN_OR_RETURN(input, ReadInput(flag, options.file, kMaxInputBytes));
  }
  std::vector<int32_t> ids;
  if (options.decode) {
    ERNE_ASSIGN_OR_RETURN(ids, ParseTokenIds(flag, input, tokenizer->vocab_size()));
    if (!options.pieces) return Outcome{tokenizer->Decode(ids, /*skip_special=*/false) + "\n", 0};
  } else {
    if (const size_t at = FindInvalidUtf8(input); at != std::string::npos) {
      return InvalidArgument(StrCat(flag, ": byte ", at, " is no UTF-8"), flag);
    }
    ids = tokenizer->Encode(input, options.special);
  }
  if (options.pieces) return Outcome{FormatPieces(*tokenizer, ids), 0};
  if (options.check) return Check(input, tokenizer->Decode(ids, false), ids.size(), zh);
  return Outcome{FormatTokenIds(ids) + "\n", 0};
}

}  // namespace

int RunTokenize(const std::vector<std::string>& arguments) {
  TokenizeOptions options;
  FlagTable flags(
      "erne tokenize [MODEL] --text TEXT|--file FILE [flags]",
      {"Prints the token ids of a text as a JSON array. Adds no begin or end token. Without MODEL "
       "it uses the embedded erne-mini; a folder needs its tokenizer files alone.",
       "以 JSON 数组打印文本的 token id，不添加起止 token。不给 MODEL 时使用内置的 erne-mini；"
       "目录里只需要有分词器文件。"});
  AddFlags(flags, options);
  const Language language = UserLanguage();
  if (const std::optional<int> end = ParseOrEnd("tokenize", flags, arguments)) return *end;
  if (const Status status = CheckUsage(flags, options); !status.ok()) {
    return Fail("tokenize", status, 2);
  }
  const Result<Outcome> outcome = Tokenize(flags, options, language == Language::kChinese);
  if (!outcome.ok()) return Fail("tokenize", outcome.status(), 1);
  return PrintAndEnd("tokenize", outcome->out, outcome->exit_code);
}

}  // namespace erne
