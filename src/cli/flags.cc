#include "cli/flags.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace erne {
namespace {

// Options line up in help up to this width; a longer one gets a line of its own.
constexpr size_t kHelpColumn = 40;

// "--Max_model_len" as "--max-model-len": only underscores change, and only after the leading
// dashes.
std::string WithDashes(std::string spelling) {
  std::replace(spelling.begin(), spelling.end(), '_', '-');
  return spelling;
}

// Whether `argument` is spelled like a flag. Negative numbers are values.
bool LooksLikeFlag(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && !(argument[1] >= '0' && argument[1] <= '9') &&
         argument[1] != '.';
}

// A whole number, or a number with a suffix: "2048", "2K" = "2KiB" = 2048, "25.6k" = 25600. Only
// powers of 1000 take fractions.
std::optional<int64_t> ParseCount(std::string_view text) {
  if (const auto plain = ParseNumber<int64_t>(text)) return plain;
  if (text.size() < 2) return std::nullopt;
  constexpr std::string_view kDecimal = "kmgt";
  constexpr std::string_view kBinary = "KMGT";
  constexpr std::string_view kBytes = "iB";
  if (text.ends_with(kBytes)) {
    text.remove_suffix(kBytes.size());
    if (text.size() < 2 || kBinary.find(text.back()) == std::string_view::npos) return std::nullopt;
  }
  const char suffix = text.back();
  const std::string_view digits = text.substr(0, text.size() - 1);
  if (const size_t power = kBinary.find(suffix); power != std::string_view::npos) {
    const auto value = ParseNumber<int64_t>(digits);
    const int shift = 10 * (static_cast<int>(power) + 1);
    if (!value || *value < 0 || *value > (std::numeric_limits<int64_t>::max() >> shift)) {
      return std::nullopt;
    }
    return *value << shift;
  }
  if (const size_t power = kDecimal.find(suffix); power != std::string_view::npos) {
    const auto value = ParseNumber<double>(digits);
    if (!value || !std::isfinite(*value) || *value < 0) return std::nullopt;
    const double scaled = std::round(*value * std::pow(1000.0, static_cast<double>(power) + 1));
    if (scaled > 9e18) return std::nullopt;
    return static_cast<int64_t>(scaled);
  }
  return std::nullopt;
}

std::string FormatNumber(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return StrCat(static_cast<int64_t>(value));
  return StrCat(value);
}

Status BadValue(const std::string& spelling, const std::string& value, const std::string& what) {
  return InvalidArgument(StrCat(spelling, ": '", value, "' ", what), spelling);
}

Status CheckRange(const std::string& spelling, const std::string& text, double value, double low,
                  double high) {
  if (value >= low && value <= high) return {};
  if (std::isinf(high)) return BadValue(spelling, text, StrCat("is below ", FormatNumber(low)));
  return BadValue(spelling, text,
                  StrCat("is not within ", FormatNumber(low), "..", FormatNumber(high)));
}

Status CheckChoice(const std::string& spelling, const std::string& value,
                   const std::vector<std::string>& choices) {
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end())
    return {};
  const std::string nearest = Nearest(value, choices);
  return BadValue(spelling, value,
                  StrCat("is none of ", Join(choices, ", "),
                         nearest.empty() ? "" : StrCat("; did you mean ", nearest, "?")));
}

std::optional<bool> ParseBool(const std::string& text) {
  const std::string lower = ToLowerAscii(text);
  if (lower == "true" || lower == "1" || lower == "yes" || lower == "on") return true;
  if (lower == "false" || lower == "0" || lower == "no" || lower == "off") return false;
  return std::nullopt;
}

struct Formatter {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const bool* value) const { return *value ? "on" : ""; }
  std::string operator()(const int64_t* value) const { return StrCat(*value); }
  std::string operator()(const double* value) const { return StrCat(*value); }
  std::string operator()(const std::string* value) const { return *value; }
  std::string operator()(const std::vector<std::string>* value) const { return Join(*value, " "); }
};

}  // namespace

Language UserLanguage() {
  for (const char* variable : {"LC_ALL", "LC_MESSAGES", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    return std::string_view(value).substr(0, 2) == "zh" ? Language::kChinese : Language::kEnglish;
  }
  return Language::kEnglish;
}

Flag::Flag(std::string name, Target target, std::string value_name, HelpText help)
    : name_(std::move(name)),
      target_(target),
      value_name_(std::move(value_name)),
      help_(std::move(help)),
      is_switch_(std::holds_alternative<bool*>(target)) {}

Flag& Flag::Alias(std::string spelling) {
  aliases_.push_back(std::move(spelling));
  return *this;
}

Flag& Flag::Range(double low, double high) {
  low_ = low;
  high_ = high;
  return *this;
}

Flag& Flag::Choices(std::vector<std::string> choices) {
  choices_ = std::move(choices);
  return *this;
}

Flag& Flag::Word(std::string word, int64_t value) {
  word_ = {std::move(word), value};
  return *this;
}

Flag& Flag::DefaultText(std::string text) {
  default_text_ = std::move(text);
  return *this;
}

Flag& Flag::Hidden() {
  hidden_ = true;
  return *this;
}

FlagTable::FlagTable(std::string usage, HelpText about)
    : usage_(std::move(usage)), about_(std::move(about)) {}

Flag& FlagTable::AddFlag(Flag flag) {
  for (const Flag& other : flags_) {
    ERNE_CHECK(other.name_ != flag.name_) << "--" << flag.name_ << " is declared twice";
  }
  // The default that help shows is the value before Parse changes it.
  flag.default_text_ = std::visit(Formatter(), flag.target_);
  return flags_.emplace_back(std::move(flag));
}

Flag& FlagTable::Add(std::string name, bool* target, HelpText help) {
  return AddFlag(Flag(std::move(name), target, "", std::move(help)));
}

Flag& FlagTable::Add(std::string name, int64_t* target, std::string value_name, HelpText help) {
  return AddFlag(Flag(std::move(name), target, std::move(value_name), std::move(help)));
}

Flag& FlagTable::Add(std::string name, double* target, std::string value_name, HelpText help) {
  return AddFlag(Flag(std::move(name), target, std::move(value_name), std::move(help)));
}

Flag& FlagTable::Add(std::string name, std::string* target, std::string value_name, HelpText help) {
  return AddFlag(Flag(std::move(name), target, std::move(value_name), std::move(help)));
}

Flag& FlagTable::Add(std::string name, std::vector<std::string>* target, std::string value_name,
                     HelpText help) {
  return AddFlag(Flag(std::move(name), target, std::move(value_name), std::move(help)));
}

void FlagTable::Positional(std::vector<std::string>* target, size_t max_count) {
  positional_ = target;
  max_positional_ = max_count;
}

void FlagTable::AddForeign(std::string name, bool is_switch, std::string why, Flag::Role role,
                           std::vector<std::string> harmless) {
  Flag& flag = AddFlag(Flag(std::move(name), std::monostate(), "", {std::move(why), ""}));
  flag.is_switch_ = is_switch;
  flag.role_ = role;
  flag.choices_ = std::move(harmless);
  flag.hidden_ = true;
}

void FlagTable::Tolerate(std::string name, bool is_switch, std::string why) {
  AddForeign(std::move(name), is_switch, std::move(why), Flag::Role::kTolerated, {});
}

void FlagTable::Refuse(std::string name, bool is_switch, std::string why,
                       std::vector<std::string> harmless) {
  AddForeign(std::move(name), is_switch, std::move(why), Flag::Role::kRefused, std::move(harmless));
}

FlagTable::Match FlagTable::Find(const std::string& spelling) {
  const std::string dashed = WithDashes(spelling);
  for (Flag& flag : flags_) {
    const bool alias =
        std::find(flag.aliases_.begin(), flag.aliases_.end(), dashed) != flag.aliases_.end();
    if (alias || dashed == "--" + flag.name_) return {&flag, false, dashed};
  }
  if (dashed.rfind("--no-", 0) == 0) {
    for (Flag& flag : flags_) {
      if (flag.is_switch_ && dashed.substr(5) == flag.name_) return {&flag, true, dashed};
    }
  }
  return {nullptr, false, dashed};
}

Status FlagTable::Unknown(const std::string& spelling) const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) {
    if (flag.hidden_) continue;
    names.push_back("--" + flag.name_);
    if (flag.is_switch_) names.push_back("--no-" + flag.name_);
    names.insert(names.end(), flag.aliases_.begin(), flag.aliases_.end());
  }
  names.push_back("--help");
  // One letter is one slip away from every other: -p says nothing of -q.
  std::string nearest = spelling.size() > 2 ? Nearest(spelling, names) : "";
  if (nearest.empty()) {  // the beginning of a longer name is more than a typing slip away from it
    for (const std::string& name : names) {
      if (spelling.size() > 3 && name.rfind(spelling, 0) == 0) nearest = name;
    }
  }
  return InvalidArgument(StrCat("unknown flag ", spelling,
                                nearest.empty() ? " (--help lists the flags)"
                                                : StrCat("; did you mean ", nearest, "?")),
                         spelling);
}

Status FlagTable::SetSwitch(const Match& match, const std::optional<std::string>& value) {
  bool on = true;
  if (value) {
    const std::optional<bool> parsed = ParseBool(*value);
    if (!parsed) return BadValue(match.spelling, *value, "is neither true nor false");
    on = *parsed;
  }
  if (match.negated) on = !on;
  if (match.flag->role_ != Flag::Role::kOurs) return SetForeign(match, on ? "true" : "false");
  *std::get<bool*>(match.flag->target_) = on;
  return {};
}

Status FlagTable::SetForeign(const Match& match, const std::string& value) {
  const Flag& flag = *match.flag;
  const bool harmless =
      (flag.is_switch_ && value == "false") ||
      std::find(flag.choices_.begin(), flag.choices_.end(), value) != flag.choices_.end();
  if (flag.role_ == Flag::Role::kRefused && !harmless) {
    return Unimplemented(
        StrCat(match.spelling, flag.is_switch_ ? "" : " " + value, ": ", flag.help_.en),
        match.spelling);
  }
  if (harmless) {
    warnings_.push_back(
        StrCat(match.spelling, flag.is_switch_ ? "" : " " + value, " changes nothing here"));
  } else {
    warnings_.push_back(StrCat(match.spelling, " is accepted and has no effect: ", flag.help_.en));
  }
  return {};
}

Status FlagTable::SetValue(const Match& match, const std::string& value) {
  Flag& flag = *match.flag;
  const std::string& spelling = match.spelling;
  if (flag.role_ != Flag::Role::kOurs) return SetForeign(match, value);
  if (auto* const* target = std::get_if<int64_t*>(&flag.target_)) {
    if (flag.word_ && value == flag.word_->first) {
      **target = flag.word_->second;
      return {};
    }
    const std::optional<int64_t> number = ParseCount(value);
    if (!number) return BadValue(spelling, value, "is not a whole number");
    ERNE_RETURN_IF_ERROR(
        CheckRange(spelling, value, static_cast<double>(*number), flag.low_, flag.high_));
    **target = *number;
    return {};
  }
  if (auto* const* target = std::get_if<double*>(&flag.target_)) {
    const std::optional<double> number = ParseNumber<double>(value);
    if (!number || !std::isfinite(*number)) return BadValue(spelling, value, "is not a number");
    ERNE_RETURN_IF_ERROR(CheckRange(spelling, value, *number, flag.low_, flag.high_));
    **target = *number;
    return {};
  }
  if (value.empty()) return InvalidArgument(StrCat(spelling, " needs a value"), spelling);
  ERNE_RETURN_IF_ERROR(CheckChoice(spelling, value, flag.choices_));
  if (auto* const* target = std::get_if<std::string*>(&flag.target_)) {
    **target = value;
    return {};
  }
  auto& list = *std::get<std::vector<std::string>*>(flag.target_);
  if (!flag.given_) list.clear();  // the default
  flag.given_ = true;
  list.push_back(value);
  return {};
}

// Parses the flag at arguments[index] and leaves `index` at the last argument that belongs to it.
Status FlagTable::ParseFlag(const std::vector<std::string>& arguments, size_t& index) {
  const std::string& argument = arguments[index];
  const size_t equals = argument.find('=');
  std::optional<std::string> value;
  if (equals != std::string::npos) value = argument.substr(equals + 1);
  const Match match = Find(argument.substr(0, equals));
  if (match.flag == nullptr) return Unknown(match.spelling);
  Flag& flag = *match.flag;

  if (flag.is_switch_) {
    ERNE_RETURN_IF_ERROR(SetSwitch(match, value));
  } else if (value) {
    ERNE_RETURN_IF_ERROR(SetValue(match, *value));
  } else {
    const bool is_list = std::holds_alternative<std::vector<std::string>*>(flag.target_);
    size_t count = 0;
    while (index + 1 < arguments.size() && !LooksLikeFlag(arguments[index + 1]) &&
           (is_list || count == 0)) {
      ERNE_RETURN_IF_ERROR(SetValue(match, arguments[++index]));
      ++count;
    }
    if (count == 0)
      return InvalidArgument(StrCat(match.spelling, " needs a value"), match.spelling);
  }
  flag.given_ = true;
  return {};
}

Status FlagTable::Parse(const std::vector<std::string>& arguments) {
  bool flags_ended = false;
  size_t positional_count = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!flags_ended && argument == "--") {
      flags_ended = true;
    } else if (!flags_ended && (argument == "-h" || argument == "--help")) {
      help_requested_ = true;
      return {};
    } else if (!flags_ended && LooksLikeFlag(argument)) {
      ERNE_RETURN_IF_ERROR(ParseFlag(arguments, i));
    } else if (argument.empty()) {  // "$MODEL" of a script where MODEL is not set
      return InvalidArgument("an argument is empty");
    } else if (positional_count < max_positional_) {
      if (positional_count++ == 0) positional_->clear();
      positional_->push_back(argument);
    } else {
      return InvalidArgument(StrCat("unexpected argument '", argument, "'"), argument);
    }
  }
  return {};
}

bool FlagTable::Given(std::string_view name) const {
  for (const Flag& flag : flags_) {
    if (flag.name_ == name) return flag.given_;
  }
  ERNE_CHECK(false) << "no flag is called " << name;
  return false;
}

std::string FlagTable::Help(Language language) const {
  const bool zh = language == Language::kChinese;
  std::string usage = usage_;
  constexpr std::string_view kFlags = "[flags]";
  if (const size_t at = usage.find(kFlags); zh && at != std::string::npos) {
    usage.replace(at, kFlags.size(), "[参数]");
  }
  std::string out = StrCat(zh ? "用法：" : "Usage: ", usage, "\n\n", about_.In(language), "\n\n",
                           zh ? "参数：\n" : "Flags:\n");
  const auto add_line = [&out](const std::string& left, const std::string& right) {
    out += "  " + left;
    if (left.size() + 2 >= kHelpColumn) {
      out += "\n" + std::string(kHelpColumn, ' ');
    } else {
      out += std::string(kHelpColumn - 2 - left.size(), ' ');
    }
    out += right + "\n";
  };
  std::vector<std::string> foreign;
  for (const Flag& flag : flags_) {
    if (flag.role_ == Flag::Role::kTolerated) foreign.push_back("--" + flag.name_);
    if (flag.hidden_) continue;
    std::string left = flag.is_switch_ ? StrCat("--[no-]", flag.name_) : StrCat("--", flag.name_);
    for (const std::string& alias : flag.aliases_) left += ", " + alias;
    if (!flag.value_name_.empty()) left += " " + flag.value_name_;
    std::string right = flag.help_.In(language);
    if (!flag.choices_.empty()) {
      right += StrCat(zh ? "，可选：" : "; one of ", Join(flag.choices_, ", "));
    }
    if (flag.default_text_ && !flag.default_text_->empty()) {
      right += zh ? StrCat("（默认 ", *flag.default_text_, "）")
                  : StrCat(" (default ", *flag.default_text_, ")");
    }
    add_line(left, right);
  }
  add_line("--help, -h", zh ? "显示本帮助" : "Shows this help");
  if (!foreign.empty()) {
    out += StrCat("\n",
                  zh ? "为兼容 vLLM 命令行而接受、但不起作用的参数："
                     : "Accepted from vLLM's command line, without effect: ",
                  Join(foreign, " "), "\n");
  }
  return out;
}

}  // namespace erne
