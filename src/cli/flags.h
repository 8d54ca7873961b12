// Command-line flags: every subcommand declares its flags in a FlagTable, bound to the variables
// that receive them, and gets parsing, error messages and `--help` from it, so that they look the
// same everywhere.
//
//   FlagTable flags("erne serve [MODEL] [flags]", {"Serves a model.", "启动模型服务。"});
//   flags.Add("port", &options.port, "N", {"Port of the API", "API 端口"}).Range(0, 65535);
//   ERNE_RETURN_IF_ERROR(flags.Parse(arguments));
//
// Accepted forms: `--flag v`, `--flag=v`; for booleans `--flag`, `--no-flag`, `--flag=true|false`;
// for lists `--flag a b c` up to the next flag, and repeating the flag adds to it. Underscores
// stand for dashes. `--` ends the flags. Whole numbers may carry the suffixes of vLLM's command
// line: k m g t (powers of 1000) and K M G T (powers of 1024), these also as KiB MiB GiB TiB.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace erne {

enum class Language { kEnglish, kChinese };

// The user's language: Chinese when the first of LC_ALL, LC_MESSAGES and LANG that is set begins
// with "zh".
Language UserLanguage();

// A text that users read, in both languages.
struct HelpText {
  std::string en;
  std::string zh;
  const std::string& In(Language language) const {
    return language == Language::kChinese ? zh : en;
  }
};

// One flag; made by FlagTable::Add. The setters return the flag, so that they can be chained.
class Flag {
 public:
  // Another spelling, with its dashes: "-q", "--tensor-parallel".
  Flag& Alias(std::string spelling);
  // Numbers: the values that are accepted, ends included.
  Flag& Range(double low, double high);
  // Strings and lists: the values that are accepted.
  Flag& Choices(std::vector<std::string> choices);
  // Numbers: the text `word` stands for `value`, as in `--max-model-len auto`.
  Flag& Word(std::string word, int64_t value);
  // What help shows as the default instead of the variable's value; "" shows none.
  Flag& DefaultText(std::string text);
  // Not in help.
  Flag& Hidden();

 private:
  friend class FlagTable;
  enum class Role {
    kOurs,
    kTolerated,  // another program's flag: accepted with a warning
    kRefused,    // another program's flag: an error, but for harmless values
  };
  // monostate: another program's flag.
  using Target = std::variant<std::monostate, bool*, int64_t*, double*, std::string*,
                              std::vector<std::string>*>;

  Flag(std::string name, Target target, std::string value_name, HelpText help);

  std::string name_;  // without dashes: "max-model-len"
  Target target_;
  std::string value_name_;
  HelpText help_;  // of another program's flag: why it is not ours, in English
  Role role_ = Role::kOurs;
  bool is_switch_ = false;            // takes no value
  std::vector<std::string> aliases_;  // with dashes
  double low_ = -std::numeric_limits<double>::infinity();
  double high_ = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices_;  // of kRefused: the harmless values
  std::optional<std::pair<std::string, int64_t>> word_;
  std::optional<std::string> default_text_;
  bool hidden_ = false;
  bool given_ = false;
};

// Not thread-safe; bound variables must outlive the table.
class FlagTable {
 public:
  // `usage` is the line after "Usage: "; `about` says what the command does.
  FlagTable(std::string usage, HelpText about);
  FlagTable(const FlagTable&) = delete;
  FlagTable& operator=(const FlagTable&) = delete;

  // Declares `--name`. The variable's present value is the default. `value_name` is what help calls
  // the value ("" for booleans). Setting a list flag replaces its default.
  Flag& Add(std::string name, bool* target, HelpText help);
  Flag& Add(std::string name, int64_t* target, std::string value_name, HelpText help);
  Flag& Add(std::string name, double* target, std::string value_name, HelpText help);
  Flag& Add(std::string name, std::string* target, std::string value_name, HelpText help);
  Flag& Add(std::string name, std::vector<std::string>* target, std::string value_name,
            HelpText help);

  // Arguments that are no flags, at most `max_count`, go into `target`.
  void Positional(std::vector<std::string>* target, size_t max_count);

  // Flags of another program's command line that people bring along. Both take a value unless
  // `is_switch`. Tolerate: accepted, with one line in warnings() that gives `why` it changes
  // nothing.
  void Tolerate(std::string name, bool is_switch, std::string why);
  // Refuse: an error that gives `why`, unless the value is among `harmless` (then as Tolerate). A
  // switch given as
  // `--no-name` is harmless.
  void Refuse(std::string name, bool is_switch, std::string why,
              std::vector<std::string> harmless = {});

  // Sets the bound variables. An error (InvalidArgument, its param() is the flag) names flag and
  // value; an unknown flag's names the nearest one. Stops at -h or --help, and then
  // help_requested() is true.
  Status Parse(const std::vector<std::string>& arguments);

  bool help_requested() const { return help_requested_; }
  // Whether `--name` was on the command line.
  bool Given(std::string_view name) const;
  // One sentence for each tolerated flag that was given.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // The text of `--help`.
  std::string Help(Language language) const;

 private:
  // A flag found on the command line, and how it was spelled there.
  struct Match {
    Flag* flag = nullptr;
    bool negated = false;  // --no-...
    std::string spelling;
  };

  Flag& AddFlag(Flag flag);
  void AddForeign(std::string name, bool is_switch, std::string why, Flag::Role role,
                  std::vector<std::string> harmless);
  Match Find(const std::string& spelling);
  Status Unknown(const std::string& spelling) const;
  Status ParseFlag(const std::vector<std::string>& arguments, size_t& index);
  Status SetSwitch(const Match& match, const std::optional<std::string>& value);
  Status SetValue(const Match& match, const std::string& value);
  Status SetForeign(const Match& match, const std::string& value);

  std::string usage_;
  HelpText about_;
  std::deque<Flag> flags_;  // a deque: Add hands out references
  std::vector<std::string>* positional_ = nullptr;
  size_t max_positional_ = 0;
  bool help_requested_ = false;
  std::vector<std::string> warnings_;
};

}  // namespace erne
