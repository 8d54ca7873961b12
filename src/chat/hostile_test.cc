// Templates and contexts made to hurt: each ends soon, with an error, and within bounded memory and
// stack.
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/test_render.h"

namespace erne {
namespace {

using ::testing::HasSubstr;

std::string Repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

void ExpectStopped(const std::string& source, const std::string& context = "{}",
                   const TemplateLimits& limits = {}) {
  const std::string message = RenderError(source, context, limits);
  const bool limited = message.find("takes more than") != std::string::npos ||
                       message.find("grows beyond") != std::string::npos ||
                       message.find("nested") != std::string::npos;
  EXPECT_TRUE(limited) << source.substr(0, 100) << " -> " << message.substr(0, 200);
}

TEST(HostileTemplate, Memory) {
  ExpectStopped("{{ 'x' * 10**9 }}");
  ExpectStopped("{{ 10**9 * 'x' }}");
  ExpectStopped("{{ [1] * 10**9 }}");
  ExpectStopped("{{ ([1] * 1000) * 9223372036854775807 }}");
  ExpectStopped(
      "{% set ns = namespace(s='xx') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}");
  ExpectStopped(
      "{% set ns = namespace(s='xx') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% "
      "endfor %}");
  ExpectStopped(
      "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% "
      "endfor %}");
  ExpectStopped(
      "{% set s = 'ab' * 10000 %}{% for i in range(100) %}{% set s = s %}{{ s.replace('', s) }}{% "
      "endfor %}");
  ExpectStopped("{{ 'a'.center(10**12) }}");
  ExpectStopped("{{ '%1000000000d' % 1 }}");
  ExpectStopped("{{ '{:1000000000}'.format(1) }}");
  ExpectStopped("{{ 'a\nb'|indent(10**10) }}");
  ExpectStopped("{{ [[1], [2]]|tojson(indent='x' * 100000000) }}");
  ExpectStopped("{{ ('a,' * 1000000).split(',') * 100 }}");
  ExpectStopped("{{ range(100000)|list|batch(10**9, 0)|list }}");
  ExpectStopped("{{ [1]|slice(10**9)|list }}");
  ExpectStopped("{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}");
  // Alternating trust makes the most pieces.
  ExpectStopped("{{ ('a' ~ u) * 30000000 }}", R"({"u": "b"})");
  ExpectStopped(
      "{% set a = 'x' * 60000000 %}{% set ns = namespace() %}{% for i in range(1000) %}{% set ns.l "
      "= [ns.l, a ~ i] %}{% endfor %}");
}

// With a tenth of the usual steps, which is enough to tell: what is not counted does not end.
TEST(HostileTemplate, Time) {
  TemplateLimits limits;
  limits.max_steps /= 10;
  ExpectStopped("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
                "{}", limits);
  ExpectStopped(
      "{% macro m(k) %}{% if k %}{{ m(k - 1) }}{{ m(k - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
      "{}", limits);
  ExpectStopped(
      "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s == s ~ '' }}{% endfor %}", "{}",
      limits);
  ExpectStopped("{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ 'b' in s }}{% endfor %}",
                "{}", limits);
  ExpectStopped("{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s[-1] }}{% endfor %}",
                "{}", limits);
  ExpectStopped("{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{{ s|length }}{% endfor %}",
                "{}", limits);
  ExpectStopped(
      "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if s.isalpha() %}{% endif %}{% "
      "endfor %}",
      "{}", limits);
  ExpectStopped("{% set l = range(50000)|list %}{% for i in l %}{{ -1 in l }}{% endfor %}", "{}",
                limits);
  ExpectStopped("{% set l = range(50000)|list %}{% for i in l %}{% set k = l|sort %}{% endfor %}",
                "{}", limits);
  // Needles that nearly match everywhere: quadratic for a plain search.
  EXPECT_EQ(RenderText("{% set s = 'a' * 4000000 %}{{ s.find('a' * 2000000 ~ 'b') }}"), "-1");
  EXPECT_EQ(RenderText("{% set s = 'a' * 2000000 %}{{ s.rfind('b' ~ 'a' * 1000000) }}"), "-1");
  // Values that contain one another many times over.
  ExpectStopped(
      "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}{{ ns.l }}",
      "{}", limits);
  ExpectStopped(
      "{% set ns = namespace(l=[1], k=[1]) %}{% for i in range(100) %}{% set ns.l = [ns.l, ns.l] "
      "%}{% set ns.k = [ns.k, ns.k] %}{% endfor %}{{ ns.l == ns.k }}",
      "{}", limits);
}

TEST(HostileTemplate, Depth) {
  for (const int depth : {150, 1000, 100000}) {
    const auto check = [depth](const std::string& source) {
      if (depth > 200) {
        EXPECT_THAT(RenderError(source), HasSubstr("nested deeper than 200"))
            << source.substr(0, 60);
      } else {
        EXPECT_THAT(RenderError(source), ::testing::Not(HasSubstr("nested")))
            << source.substr(0, 60);
      }
    };
    check("{{ " + Repeated("(", depth) + "1" + Repeated(")", depth) + " }}");
    check("{{ " + Repeated("[", depth) + Repeated("]", depth) + " }}");
    check("{{ " + Repeated("{1:", depth) + "1" + Repeated("}", depth) + " }}");
    check("{{ " + Repeated("not ", depth) + "1 }}");
    check("{{ " + Repeated("- ", depth) + "1 }}");
    check("{{ x" + Repeated("|string", depth) + " }}");
    check("{{ namespace" + Repeated(".x", depth) + " }}");
    check("{{ namespace" + Repeated("[0]", depth) + " }}");
    check("{{ namespace" + Repeated("()", depth) + " }}");
    check("{{ " + Repeated("1 if 0 else ", depth) + "1 }}");
    check("{% set " + Repeated("(", depth) + "x" + Repeated(")", depth) + " = 1 %}");
    check(Repeated("{% if 1 %}", depth) + Repeated("{% endif %}", depth));
    check(Repeated("{% for i in [1] %}", depth) + Repeated("{% endfor %}", depth));
    check(Repeated("{% macro m() %}", depth) + Repeated("{% endmacro %}", depth));
  }
  // Chains do not nest.
  EXPECT_EQ(RenderText("{{ 1" + Repeated(" + 1", 10000) + " }}"), "10001");
  EXPECT_EQ(RenderText("{{ 'a'" + Repeated(" ~ 'a'", 1000) + " }}").size(), 1001u);
  EXPECT_EQ(RenderText("{% if 0 %}" + Repeated("{% elif 0 %}", 10000) + "{% else %}x{% endif %}"),
            "x");
}

TEST(HostileTemplate, Recursion) {
  ExpectStopped("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  ExpectStopped("{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}");
  ExpectStopped(
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{% set x %}{{ a() }}{% endset %}{% "
      "endmacro %}{{ a() }}");
  ExpectStopped("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}");
  ExpectStopped(
      "{% set ns = namespace(l=1) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}");
  ExpectStopped(
      "{% set ns = namespace(l=1) %}{% for i in range(1000) %}{% set ns.l = {1: ns.l} %}{% endfor "
      "%}");
  ExpectStopped(
      "{% set ns = namespace(l='a') %}{% for i in range(1000) %}{% set ns.l = ns.l|map('upper') "
      "%}{% endfor %}{{ ns.l|list }}");
  ExpectStopped(
      "{% set ns = namespace(l='a') %}{% for i in range(1000) %}{% set ns.l = ns.l|select %}{% "
      "endfor %}");
  ExpectStopped("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}");
  ExpectStopped(
      "{% set ns = namespace(l={}) %}{% for i in range(1000) %}{% set ns.l = {1: ns.l.items} %}{% "
      "endfor %}");
  // A namespace in itself is fine as long as nobody writes it out.
  EXPECT_EQ(RenderText("{% set ns = namespace(a=1) %}{% set ns.me = [ns] %}{% macro m() %}{% "
                       "endmacro %}{% set ns.f = m %}{{ ns.me[0].a }}"),
            "1");
}

TEST(HostileTemplate, OddNumbers) {
  for (const char* source :
       {"{{ l[-9223372036854775808:] }}",
        "{{ l[::-9223372036854775807] }}",
        "{{ l[9223372036854775807] }}",
        "{{ s[-9223372036854775807] }}",
        "{{ s[::9223372036854775807] }}",
        "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ (-9223372036854775807 - 1) % -1 }}",
        "{{ -(-9223372036854775807 - 1) }}",
        "{{ (-9223372036854775807 - 1)|abs }}",
        "{{ 1e308 * 10 }}",
        "{{ (1e308 * 10)|int }}",
        "{{ 1e300|int }}",
        "{{ 'nan'|float|int }}",
        "{{ 'nan'|float|round(2) }}",
        "{{ 5|round(9223372036854775807) }}",
        "{{ 5.5|round(-9223372036854775807) }}",
        "{{ 1.5|round(400, 'floor') }}",
        "{{ '%.999999999f' % 1.5 }}",
        "{{ '{:.99999}'.format(1.5) }}",
        "{{ '%*d' % (-9223372036854775807, 1) }}",
        "{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807)|list }}",
        "{{ 0 ** -1 }}",
        "{{ range(9223372036854775800, 9223372036854775807, 5)[::-1] }}",
        "{{ '99999999999999999999'|int }}",
        "{{ 'abc'|truncate(-1) }}",
        "{{ 'abc'|truncate(9223372036854775807, leeway=9223372036854775807) }}",
        "{{ s.find('a', -9223372036854775807, 9223372036854775807) }}",
        "{{ 2 ** 9223372036854775807 }}",
        "{{ (-1) ** 9223372036854775807 }}",
        "{{ 10.0 ** 400 }}",
        "{{ (-8) ** 0.5 }}",
        "{{ l|batch(-5)|list }}",
        "{{ 'a'.expandtabs(-9223372036854775807) }}",
        "{{ 'a\tb'.expandtabs(9223372036854775807) }}"}) {
    const auto result = RenderPieces(source, R"({"l": [1, 2, 3], "s": "añb"})");
    SUCCEED() << source << (result.ok() ? " renders" : result.status().message());
  }
  EXPECT_EQ(
      RenderText(
          "{{ (-9223372036854775807 - 1) % -1 }} {{ 9007199254740993 == 9007199254740992.0 }}"),
      "0 False");
}

TEST(HostileContext, DeepAndOdd) {
  Json deep = Json(int64_t{1});
  for (int i = 0; i < 500; ++i) deep = Json(Json::Array{std::move(deep)});
  const auto compiled = ChatTemplate::Compile("{{ deep }}");
  ASSERT_TRUE(compiled.ok());
  const auto result = (*compiled)->Render(Json::MakeObject(), Json::Of({{"deep", deep}}));
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("nested deeper"));
}

TEST(HostileTemplate, LimitsAreTheCallers) {
  TemplateLimits limits;
  limits.max_steps = 100;
  EXPECT_THAT(RenderError("{% for i in range(200) %}x{% endfor %}", "{}", limits),
              HasSubstr("more than 100 steps"));
  limits = {};
  limits.max_output = 10;
  EXPECT_THAT(RenderError("12345678901", "{}", limits), HasSubstr("larger than 10 bytes"));
  limits = {};
  limits.max_depth = 3;
  EXPECT_THAT(RenderError("{{ [[[[1]]]] }}", "{}", limits), HasSubstr("nested deeper than 3"));
}

// One compiled template, many threads.
TEST(TemplateThreads, RendersAtOnce) {
  const auto compiled =
      ChatTemplate::Compile("{% for m in l %}{{ 'a' ~ m|upper ~ loop.index }}{% endfor %}");
  ASSERT_TRUE(compiled.ok());
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        const auto pieces =
            (*compiled)->Render(Json::MakeObject(), *Json::Parse(R"({"l": ["x", "y"]})"));
        texts[i].clear();
        for (const TextPiece& piece : *pieces) texts[i] += piece.text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, "aX1aY2");
}

}  // namespace
}  // namespace erne
