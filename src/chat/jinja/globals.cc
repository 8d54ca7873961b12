// Global functions: range, dict and namespace of Jinja, raise_exception and strftime_now of
// transformers.
#include <ctime>

#include "chat/jinja/arguments.h"
#include "chat/jinja/builtins.h"
#include "chat/jinja/objects.h"
#include "chat/jinja/operators.h"

namespace erne::jinja {
namespace {

// Jinja's sandbox has this limit (jinja2.sandbox.MAX_RANGE).
constexpr int64_t kMaxRange = 100000;

Value RangeFunction(Runtime& runtime, CallArgs& args) {
  runtime.budget().Steps();
  if (args.positional.empty() || args.positional.size() > 3 || !args.named.empty()) {
    Fail("range() takes 1 to 3 positional arguments");
  }
  const auto at = [&args](size_t i) { return ToIndex(args.positional[i], "range() argument"); };
  const bool one = args.positional.size() == 1;
  const int64_t start = one ? 0 : at(0);
  const int64_t stop = one ? at(0) : at(1);
  const int64_t step = args.positional.size() == 3 ? at(2) : 1;
  if (step == 0) Fail("range() arg 3 must not be zero");
  const __int128 span =
      step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 length = span > 0 ? (span + stride - 1) / stride : 0;
  if (length > kMaxRange) {
    Fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMaxRange, ").");
  }
  return Value(std::static_pointer_cast<Object>(
      std::make_shared<Range>(start, stop, step, static_cast<int64_t>(length))));
}

// dict(mapping or pairs, name=value, ...).
std::shared_ptr<Dict> BuildDict(Runtime& runtime, const CallArgs& args, const char* function) {
  auto dict = std::make_shared<Dict>();
  if (args.positional.size() > 1) Fail(function, "() takes at most 1 positional argument");
  if (!args.positional.empty() && args.positional[0].is_dict()) {
    for (const auto& [key, value] : args.positional[0].AsDict().items())
      dict->Set(runtime, key, value);
  } else if (!args.positional.empty()) {
    const Next next = Iterate(runtime, args.positional[0]);
    for (Value pair; next(pair);) {
      std::vector<Value> items = Items(runtime, pair);
      if (items.size() != 2) Fail(function, "() needs pairs of key and value");
      dict->Set(runtime, std::move(items[0]), std::move(items[1]));
    }
  }
  for (const auto& [name, value] : args.named) dict->Set(runtime, Value(name), value);
  return dict;
}

Value DictFunction(Runtime& runtime, CallArgs& args) {
  return Value(std::shared_ptr<const Dict>(BuildDict(runtime, args, "dict")));
}

Value NamespaceFunction(Runtime& runtime, CallArgs& args) {
  const std::shared_ptr<Dict> dict = BuildDict(runtime, args, "namespace");
  const std::shared_ptr<Namespace> result = runtime.NewNamespace();
  for (const auto& [key, value] : dict->items()) {
    if (!key.is_string()) Fail("namespace() needs names that are strings");
    result->Set(runtime, key.AsText().view(), value);
  }
  return Value(std::static_pointer_cast<Object>(result));
}

Value RaiseException(Runtime& runtime, CallArgs& args) {
  const BoundArgs bound(runtime, args, "raise_exception", {"message"}, 1);
  throw RenderError{std::string(bound.String(0).view()), true};
}

// One directive of strftime ("%d", "%-d"). Python's naive datetime has no zone: %z and %Z are
// empty.
void AppendTime(char flag, char letter, const std::tm& time, std::string& out) {
  if (letter == 'z' || letter == 'Z') return;
  if (letter == 'f') {
    out += "000000";
    return;
  }
  const char format[] = {'%', flag != 0 ? flag : letter, flag != 0 ? letter : '\0', '\0'};
  char text[128];
  out.append(text, std::strftime(text, sizeof(text), format, &time));
}

Value StrftimeNow(Runtime& runtime, CallArgs& args) {
  const BoundArgs bound(runtime, args, "strftime_now", {"format"}, 1);
  const Text& format = bound.RequiredText(0);
  const auto now = static_cast<std::time_t>(runtime.local_now());
  std::tm time{};
  if (gmtime_r(&now, &time) == nullptr) Fail("the clock is out of range");
  TextBuilder out(runtime.budget());
  format.ForEachRun(0, format.size(), [&](std::string_view run, bool trusted) {
    std::string text;
    for (size_t i = 0; i < run.size(); ++i) {
      const size_t letter =
          i + 1 < run.size() && std::string_view("-_0^#").find(run[i + 1]) != std::string_view::npos
              ? i + 2
              : i + 1;
      constexpr std::string_view kLetters = "aAbBcCdDeFfgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%";
      if (run[i] != '%' || letter >= run.size() ||
          kLetters.find(run[letter]) == std::string_view::npos) {
        text.push_back(run[i]);
        continue;
      }
      AppendTime(letter == i + 2 ? run[i + 1] : '\0', run[letter], time, text);
      i = letter;
    }
    out.Append(text, trusted);
  });
  return Value(out.Build());
}

struct GlobalEntry {
  std::string_view name;
  GlobalFunction function;
};

constexpr GlobalEntry kGlobals[] = {
    {"dict", DictFunction},   {"namespace", NamespaceFunction}, {"raise_exception", RaiseException},
    {"range", RangeFunction}, {"strftime_now", StrftimeNow},
};

}  // namespace

GlobalFunction FindGlobal(std::string_view name) {
  for (const GlobalEntry& entry : kGlobals) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace erne::jinja
