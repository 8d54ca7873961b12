// The language of templates, topic by topic. The expected texts were made by Jinja2 3.1.6 in
// transformers' settings.
#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

#include "chat/test_render.h"

namespace erne {
namespace {

constexpr const char* kContext = R"json({
  "s": "Hello Wörld", "l": [3, 1, 2], "d": {"b": 1, "a": [1, 2], "items": "x"}, "n": null, "f": 2.5, "i": 7, "t": true,
  "e": "", "u": "a<b&c>\"'", "z": "  pad\t\n", "nest": [[1, [2, 3]], [4]],
  "msgs": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": null, "tool_calls": []}]})json";

struct Case {
  const char* source;
  const char* expected;
};

void ExpectRenders(std::initializer_list<Case> cases) {
  for (const Case& one : cases)
    EXPECT_EQ(RenderText(one.source, kContext), one.expected) << one.source;
}

TEST(TemplateLanguage, Whitespace) {
  ExpectRenders({
      {"  {% if t %}\n  x\n  {% endif %}\ny", "  x\ny"},
      {"a\n  {%- if t -%}\n  x\n  {%- endif +%}\ny", "ax\ny"},
      {"a {#- c -#} b\n  {# c #}\nc", "ab\nc"},
      {"  {%- raw -%}  {{ x }} {% if %} {%- endraw -%}  |", "{{ x }} {% if %}|"},
      {"a{{ \"x\" }}\n", "ax"},
      {"{{- \"a\" -}}   b   {{- \"c\" }}\n   {{ \"d\" -}}\ne", "abc\n   de"},
      {"  {%+ if t %}x{% endif %}", "  x"},
      {"{% for x in l %}\n{{ x }}\n{% endfor %}\nend", "3\n1\n2\nend"},
      {"x {%- if 1 %} y {% endif -%} z", "x y z"},
      {"a\r\nb\rc\n\n", "a\nb\nc\n"},
      {"{% if t -%}\n\n  deep\n{%- endif %}", "deep"},
      {"{{ \"}}\" }} {{ \"%}\" }} {{ {\"a\": {\"b\": {}}}[\"a\"] }}", "}} %} {'b': {}}"},
      {"\t{% set q = 1 %}\n{{ q }}", "1"},
      {"{% raw %}{{ a }}{% endraw %}\nb", "{{ a }}b"},
  });
}

TEST(TemplateLanguage, Literals) {
  ExpectRenders({
      {"{{ 1_000 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1e3 }} {{ 2.50 }} {{ 007.5 }}",
       "1000 31 3 15 1000.0 2.5 7.5"},
      {"{{ 'a' 'b' \"c\" }} {{ 'a\\'b' }} {{ \"\\u4f60\\x41\\101\" }} {{ '\\q' }}|{{ 'a\\\nb' }}",
       "abc a'b 你AA \\q|ab"},
      {"{{ () }} {{ (1,) }} {{ (1, 2) }} {{ 1, 2 }} {{ [1, 'a', [none]] }} {{ {'a': 1, 2: true, "
       "'a': 3} }}",
       "() (1,) (1, 2) (1, 2) [1, 'a', [None]] {'a': 3, 2: True}"},
      {"{{ true }} {{ True }} {{ false }} {{ none }} {{ None }}", "True True False None None"},
      {"{{ [\"it's\", 'q\"', 'b\\\\', 'n\\n', '\\u00e9', '\\x00\\u200b', \"both'\\\"\"] }}",
       "[\"it's\", 'q\"', 'b\\\\', 'n\\n', 'é', '\\x00\\u200b', 'both\\'\"']"},
  });
}

TEST(TemplateLanguage, Numbers) {
  ExpectRenders({
      {"{{ 1/2 }} {{ 4/2 }} {{ 7//2 }} {{ -7//2 }} {{ -7%3 }} {{ 7%-3 }} {{ 2**10 }} {{ 2**-1 }} "
       "{{ 2**3**2 }} {{ -2**2 }}",
       "0.5 2.0 3 -4 2 -2 1024 0.5 64 4"},
      {"{{ 1e20 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.5e300 }} {{ 3.0 }} {{ "
       "-0.0 }} {{ 0.1 + 0.2 }} {{ 100 * 1.1 }}",
       "1e+20 1e+16 1000000000000000.0 0.0001 1e-05 1.5e+300 3.0 -0.0 0.30000000000000004 "
       "110.00000000000001"},
      {"{{ 7.5//2 }} {{ -7.5%2 }} {{ 7.5%-2 }} {{ 5 // 0.3 }} {{ 1.0*3 }} {{ t+1 }} {{ t*2.5 }} {{ "
       "-t }} {{ +f }}",
       "3.0 0.5 -0.5 16.0 3.0 2 2.5 -1 2.5"},
      {"{{ 10-5-2 }} {{ 2*3%4 }} {{ (1 + 2) ~ 3 }} {{ 2 ~ 3 * 4 }}", "3 2 33 212"},
      {"{{ 42.55|round }} {{ 42.55|round(1,'floor') }} {{ 42.55|round(1,'ceil') }} {{ 2.5|round }} "
       "{{ 42|round }} {{ 1250|round(-2) }} {{ 2.675|round(2) }}",
       "43.0 42.5 42.6 2.0 42 1200 2.67"},
      {"{{ '42'|int }} {{ '42.7'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ '0x1f'|int(base=16) }} "
       "{{ ' 7 '|int }} {{ 3.9|int }} {{ n|int }} {{ '3.5'|float }} {{ 'x'|float }} {{ t|int }} {{ "
       "-3|abs }}",
       "42 42 0 5 31 7 3 0 3.5 0.0 1 3"},
  });
}

TEST(TemplateLanguage, Logic) {
  ExpectRenders({
      {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ \"a\" < \"b\" }} {{ [1,2] < [1,3] }} {{ (1,2) == (1,2) "
       "}} {{ [1] == (1,) }} {{ 1 == 1.0 == t }} {{ n == false }}",
       "True False True True True False True False"},
      {"{{ \"x\" in \"xyz\" }} {{ 2 in l }} {{ \"b\" in d }} {{ 5 not in l }} {{ 2 in range(3) }}",
       "True True True True True"},
      {"{{ not t and false or t }} {{ 0 or \"x\" }} {{ \"a\" and \"b\" }} {{ \"\" and \"b\" }} {{ "
       "not not 1 }} {{ t and missing }}|{{ [] or {} }}",
       "True x b  True |{}"},
      {"{{ \"a\" if e else \"b\" }} {{ \"a\" if false }}| {{ (\"a\" if false) is defined }} {{ 1 "
       "if 0 else 2 if 0 else 3 }}",
       "b | False 3"},
      {"{{ {1: \"x\"}[t] }} {{ {1.0: \"y\"}[1] }}", "x y"},
  });
}

TEST(TemplateLanguage, Undefined) {
  ExpectRenders({
      {"{{ missing }}|{{ missing is defined }}|{{ missing|default(\"D\") }}|{{ n|default(\"D\") "
       "}}|{{ n|default(\"D\", true) }}|{{ e|d(\"E\", boolean=true) }}",
       "|False|D|None|D|E"},
      {"{{ \"a\" in missing }} {{ missing == other }} {{ missing|length }} {{ missing|list }} {{ "
       "missing|join }}{{ missing|upper }} {{ missing|first is defined }} {{ missing|items|list }} "
       "{{ missing ~ \"x\" }}",
       "False True 0 []  False [] x"},
      {"{{ d.missing }}|{{ l[9] }}|{{ s.nosuch }}|{{ l[\"x\"] }}|{{ l.append }}|{{ d.update is "
       "defined }}",
       "|||||False"},
      {"{% for x in missing %}x{% else %}none{% endfor %}{% if missing %}y{% endif %}", "none"},
  });
}

TEST(TemplateLanguage, Access) {
  ExpectRenders({
      {"{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[5:1] }} {{ l.0 }} {{ "
       "d.a.1 }} {{ msgs[0].role }} {{ msgs[0][\"content\"] }}",
       "3 2 [1, 2] [3, 1] [2, 1, 3] [] 3 2 user hi"},
      {"{{ s[7] }} {{ s[-4:] }} {{ s[::2] }} {{ s[8:6:-1] }} {{ s[100] }}|{{ s|length }}",
       "ö örld HloWrd rö |11"},
      {"{{ d[\"items\"] }} {{ d.get(\"a\") }} {{ d.get(\"zz\") }} {{ d.get(\"zz\", 5) }} {{ "
       "d.keys()|list }} {{ d.values()|list }} {{ d.keys() }} {{ d.items() }} {{ d|length }}",
       "x [1, 2] None 5 ['b', 'a', 'items'] [1, [1, 2], 'x'] dict_keys(['b', 'a', 'items']) "
       "dict_items([('b', 1), ('a', [1, 2]), ('items', 'x')]) 3"},
      {"{{ range(5)|list }} {{ range(2,10,3)|list }} {{ range(5,0,-2)|list }} {{ range(3) }} {{ "
       "range(1,9,2)[1:3] }} {{ range(5)[-1] }}",
       "[0, 1, 2, 3, 4] [2, 5, 8] [5, 3, 1] range(0, 3) range(3, 7, 2) 4"},
      {"{{ l.index(1) }} {{ l.count(2) }} {{ (1.5).is_integer() }} {{ namespace(a=1).a }} {{ "
       "dict(a=1, b=2) }} {{ dict([(\"x\", 1)]) }}",
       "1 1 False 1 {'a': 1, 'b': 2} {'x': 1}"},
  });
}

TEST(TemplateLanguage, Loops) {
  ExpectRenders({
      {"{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ "
       "loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem "
       "}}{{ loop.depth }}{{ loop.cycle('a','b') }}{{ loop.changed(x) }} {% endfor %}",
       "10TrueFalse33211aTrue 21FalseFalse321321bTrue 32FalseTrue31011aTrue "},
      {"{% for x in [] %}x{% else %}empty{% endfor %}", "empty"},
      {"{% for x in l if x > 1 %}{{ x }}:{{ loop.length }}:{{ loop.last }} {% endfor %}",
       "3:2:False 2:2:True "},
      {"{% for x in range(10) %}{% if x == 3 %}{% continue %}{% endif %}{% if x == 6 %}{% break "
       "%}{% endif %}{{ x }}{% endfor %}",
       "01245"},
      {"{%- for n in nest recursive %}{% if n is iterable %}[{{ loop(n) }}]{% else %}{{ n }}@{{ "
       "loop.depth }}{% endif %}{% endfor %}",
       "[1@2[2@33@3]][4@2]"},
      {"{% for a, (b, c) in [(1,(2,3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for k, v in "
       "d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in "
       "\"aé\" %}{{ c }}.{% endfor %}",
       "123b=1;a=[1, 2];items=x;baitemsa.é."},
      {"{% set ns = namespace(stop=false) %}{% for x in l if not ns.stop %}{{ x }}{% set ns.stop = "
       "true %}{% endfor %}",
       "3"},
      {"{% for i in [1,2] %}{% set outer = loop %}{% for j in [1,2] %}{{ outer.index }}{{ "
       "loop.index }} {% endfor %}{% endfor %}",
       "11 12 21 22 "},
  });
}

TEST(TemplateLanguage, Scopes) {
  ExpectRenders({
      {"{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}", "4,2,3,1"},
      {"{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a "
       "}}",
       "7"},
      {"{% if t %}{% set q = 3 %}{% endif %}{{ q }} {% for i in [1] %}{% set w = i %}{% endfor "
       "%}{{ w }}|",
       "3 |"},
      {"{% set x = 1 %}{% macro show() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ show() }}", "2"},
      {"{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}|", "12|"},
      {"{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, k) = [3, 4] %}{{ c }}{{ k }}", "1234"},
      {"{% set x %}abc {{ s }}{% endset %}{{ x }}{% set y | upper | trim %}  abc {{ s }} {% endset "
       "%}[{{ y }}]",
       "abc Hello Wörld[ABC HELLO WÖRLD]"},
      {"{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace(\"a\", \"b\")|upper %}aa{% "
       "endfilter %}",
       "ABC HELLO WÖRLDBB"},
  });
}

TEST(TemplateLanguage, Macros) {
  ExpectRenders({
      {"{% macro m(a, b=2) %}{{ a }}-{{ b }}-{{ varargs }}-{{ kwargs }}{% endmacro %}{{ m(1) }} {{ "
       "m(1,3,4,5) }} {{ m(1, x=9) }} {{ m(b=1) }} {{ m(*[7,8]) }} {{ m(**{\"a\": 0}) }}",
       "1-2-()-{} 1-3-(4, 5)-{} 1-2-()-{'x': 9} -1-()-{} 7-8-()-{} 0-2-()-{}"},
      {"{% macro m(a) %}<{{ caller() }}|{{ a }}>{% endmacro %}{% call m(1) %}x{{ s }}{% endcall %}",
       "<xHello Wörld|1>"},
      {"{% macro m(a) %}<{{ caller(a, 2) }}>{% endmacro %}{% call(p, q=5) m(1) %}x{{ p }}{{ q }}{% "
       "endcall %}",
       "<x12>"},
      {"{% macro outer() %}{% set x = 5 %}{% macro inner() %}{{ x }}{% endmacro %}{{ inner() }}{% "
       "endmacro %}{{ outer() }}",
       "5"},
      {"{% macro down(k) %}{{ k }}{% if k %}{{ down(k - 1) }}{% endif %}{% endmacro %}{{ down(5) "
       "}}",
       "543210"},
  });
}

TEST(TemplateLanguage, SequenceFilters) {
  ExpectRenders({
      {"{{ l|sort }} {{ l|sort(reverse=true) }} {{ l|sum }} {{ l|sum(start=10) }} {{ l|min }} {{ "
       "l|max }} {{ l|first }} {{ l|last }} {{ l|length }} {{ l|reverse|list }} {{ l|join(\"-\") "
       "}}",
       "[1, 2, 3] [3, 2, 1] 6 16 1 3 3 2 3 [2, 1, 3] 3-1-2"},
      {"{{ ['b','A','c']|sort }} {{ ['b','A','c']|sort(case_sensitive=true) }} {{ "
       "['a','A','b']|unique|list }} {{ msgs|map(attribute='role')|list }} {{ "
       "msgs|selectattr('role','equalto','user')|list }} {{ "
       "msgs|rejectattr('content')|map(attribute='role')|join }}",
       "['A', 'b', 'c'] ['A', 'b', 'c'] ['a', 'b'] ['user', 'assistant'] [{'role': 'user', "
       "'content': 'hi'}] assistant"},
      {"{{ l|map('string')|list }} {{ l|select('odd')|list }} {{ l|reject('odd')|list }} {{ "
       "l|batch(2)|list }} {{ l|batch(2,'x')|list }} {{ l|slice(2)|list }} {{ d|dictsort }} {{ "
       "d|items|list }}",
       "['3', '1', '2'] [3, 1] [2] [[3, 1], [2]] [[3, 1], [2, 'x']] [[3, 1], [2]] [('a', [1, 2]), "
       "('b', 1), ('items', 'x')] [('b', 1), ('a', [1, 2]), ('items', 'x')]"},
      {"{{ [1,n,'x',2.0]|join('|') }} {{ msgs|join(',', attribute='role') }} {{ 'abc'|join('-') }} "
       "{{ 'abc'|list }} {{ 'abc'|reverse }} {{ 'abc'|last }} {{ msgs|map(attribute='zz', "
       "default='Q')|join }} {{ msgs|sort(attribute='role')|map(attribute='role')|join(',') }}",
       "1|None|x|2.0 user,assistant a-b-c ['a', 'b', 'c'] cba c QQ assistant,user"},
      {"{{ (l|map(\"string\"))[0] }}|{% set g = l|map(\"string\") %}{{ g|join }}{{ g|join }}",
       "|312"},
  });
}

TEST(TemplateLanguage, TextFilters) {
  ExpectRenders({
      {"{{ s|upper }} {{ s|lower }} {{ s|title }} {{ s|capitalize }} {{ s|replace('l','L') }} {{ "
       "s|replace('l','L',1) }} {{ z|trim }} {{ 'xyaxy'|trim('xy') }}",
       "HELLO WÖRLD hello wörld Hello Wörld Hello wörld HeLLo WörLd HeLlo Wörld pad a"},
      {"{{ 'a\\nb\\n\\nc'|indent(2) }}|{{ 'a\\nb\\n\\nc'|indent(2,true,true) }}|{{ "
       "'a\\nb'|indent('>>') }}",
       "a\n  b\n\n  c|  a\n  b\n  \n  c|a\n>>b"},
      {"{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9,true) }} {{ 'foo bar "
       "baz qux'|truncate(11) }} {{ s|wordcount }} {{ 'a b&c/d'|urlencode }} {{ 'x'|center(5) }}|",
       "foo... foo ba... foo bar baz qux 2 a%20b%26c/d   x  |"},
      {"{{ u|e }} {{ (u|safe) + '<' }} {{ '<' + (u|safe) }} {{ u|e|e }} {{ u|e|forceescape }} {{ "
       "[u|safe] }}",
       "a&lt;b&amp;c&gt;&#34;&#39; a<b&c>\"'&lt; &lt;a<b&c>\"' a&lt;b&amp;c&gt;&#34;&#39; "
       "a&amp;lt;b&amp;amp;c&amp;gt;&amp;#34;&amp;#39; [Markup('a<b&c>\"\\'')]"},
      {"{{ n|upper }} {{ 5|upper }} {{ t|lower }} {{ n|trim }} {{ d|string }}",
       "NONE 5 true None {'b': 1, 'a': [1, 2], 'items': 'x'}"},
  });
}

TEST(TemplateLanguage, Json) {
  ExpectRenders({
      {"{{ d|tojson }} {{ msgs|tojson }} {{ u|tojson }} {{ \"é/\\x7f\\x01\"|tojson }} {{ "
       "s|tojson(ensure_ascii=true) }} {{ \"😀\"|tojson(ensure_ascii=true) }}",
       "{\"b\": 1, \"a\": [1, 2], \"items\": \"x\"} [{\"role\": \"user\", \"content\": \"hi\"}, "
       "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": []}] \"a<b&c>\\\"'\" "
       "\"é/\\u0001\" \"Hello W\\u00f6rld\" \"\\ud83d\\ude00\""},
      {"{{ d|tojson(indent=2) }} {{ []|tojson(indent=2) }} {{ {}|tojson(indent=2) }} {{ "
       "l|tojson(indent=\"\\t\") }}",
       "{\n  \"b\": 1,\n  \"a\": [\n    1,\n    2\n  ],\n  \"items\": \"x\"\n} [] {} "
       "[\n\t3,\n\t1,\n\t2\n]"},
      {"{{ {1:2,n:3,t:4,2.5:1}|tojson }} {{ (1,2)|tojson }} {{ "
       "d|tojson(sort_keys=true,separators=(\",\",\":\")) }} {{ 1.0|tojson }} {{ 1e100|tojson }} "
       "{{ 1e-7|tojson }}",
       "{\"1\": 4, \"null\": 3, \"2.5\": 1} [1, 2] {\"a\":[1,2],\"b\":1,\"items\":\"x\"} 1.0 "
       "1e+100 1e-07"},
  });
}

TEST(TemplateLanguage, StringMethods) {
  ExpectRenders({
      {"{{ s.upper() }} {{ s.title() }} {{ s.swapcase() }} {{ s.split() }} {{ s.split('l') }} {{ "
       "s.split('l',1) }} {{ s.rsplit('l',1) }} {{ ' a  b '.split() }} {{ ' a  b c '.split(none,1) "
       "}} {{ ' a  b c '.rsplit(none,1) }}",
       "HELLO WÖRLD Hello Wörld hELLO wÖRLD ['Hello', 'Wörld'] ['He', '', 'o Wör', 'd'] ['He', 'lo "
       "Wörld'] ['Hello Wör', 'd'] ['a', 'b'] ['a', 'b c '] [' a  b', 'c']"},
      {"[{{ z.strip() }}] [{{ z.lstrip() }}] [{{ z.rstrip() }}] {{ 'xxaxx'.strip('x') }} {{ "
       "s.find('o') }} {{ s.rfind('l') }} {{ s.index('W') }} {{ s.count('l') }} {{ s.find('zz') }} "
       "{{ s.startswith('He') }} {{ s.endswith(('x','ld')) }} {{ s.startswith('e',1) }}",
       "[pad] [pad\t\n] [  pad] a 4 9 6 3 -1 True True True"},
      {"{{ s.partition(' ') }} {{ s.rpartition('l') }} {{ s.center(16) }}| {{ s.ljust(13,'*') }} "
       "{{ s.rjust(13) }} {{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} {{ '-'.join(['a','b']) }} {{ "
       "s.replace('','-') }} {{ 'a\\tb'.expandtabs(4) }}",
       "('Hello', ' ', 'Wörld') ('Hello Wör', 'l', 'd')   Hello Wörld   | Hello Wörld**   Hello "
       "Wörld 00042 -0042 a-b -H-e-l-l-o- -W-ö-r-l-d- a   b"},
      {"{{ 'abc'.isalpha() }} {{ 'a1'.isalnum() }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ ' "
       "'.isspace() }} {{ 'Ab'.istitle() }} {{ 'AB'.isupper() }} {{ 'ab1'.islower() }} {{ "
       "'Hello'.removeprefix('He') }} {{ 'Hello'.removesuffix('lo') }} {{ "
       "'a\\nb\\r\\nc'.splitlines() }} {{ 'a\\nb'.splitlines(true) }}",
       "True True True False True True True True llo Hel ['a', 'b', 'c'] ['a\\n', 'b']"},
      {"{{ 'straße ﬁ'.upper() }} {{ 'ŒUVRE ÀÉ ΑΒ ДЖ'.lower() }} {{ 'ﬁx'.capitalize() }} {{ "
       "'\\u3000宽\\u00a0'.strip() }}",
       "STRASSE FI œuvre àé αβ дж Fix 宽"},
  });
}

TEST(TemplateLanguage, Formatting) {
  ExpectRenders({
      {"{{ '%s is %d years %.2f %5d|%-5d|%05d %x %r %%' % ('Bob', 42, 3.14159, 7, 7, 7, 255, 'q') "
       "}} {{ '%s' % n }} {{ '%(a)s' % {'a': 1} }} {{ '%s %s'|format('a', 1) }} {{ '%+d % d' % (1, "
       "2) }} {{ '%e %g %G' % (12345.678, 0.00001, 1e20) }}",
       "Bob is 42 years 3.14     7|7    |00007 ff 'q' % None 1 a 1 +1  2 1.234568e+04 1e-05 1E+20"},
      {"{{ '{} {}'.format(1, 'x') }} {{ '{0}{1}{0}'.format('a','b') }} {{ '{x}'.format(x=5) }} {{ "
       "'{:>5}|{:<5}|{:^5}|{:05d}|{:,}|{:.2f}|{:x}|{:#x}|{!r}'.format('a','b','c',42,1234567,3."
       "14159,255,255,'q') }} {{ '{{}}'.format() }} {{ '{0[a]} "
       "{0[b][1]}'.format({'a':1,'b':[1,2]}) }} {{ '{:{}}'.format('x', 3) }}| {{ "
       "'{:.1%}'.format(0.256) }}",
       "1 x aba 5     a|b    |  c  |00042|1,234,567|3.14|ff|0xff|'q' {} 1 2 x  | 25.6%"},
      {"{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M:%S %j %A %p %I %y %B %% "
       "%a') }}",
       "02 Jan 2026 2026-01-02 03:04:05 002 Friday AM 03 26 January % Fri"},
  });
}

TEST(TemplateLanguage, Tests) {
  ExpectRenders({
      {"{{ s is string }} {{ l is sequence }} {{ d is mapping }} {{ l is iterable }} {{ 5 is "
       "iterable }} {{ d is sequence }} {{ missing is sequence }} {{ 5 is number }} {{ t is number "
       "}} {{ 5 is integer }} {{ t is integer }} {{ 5.0 is float }} {{ n is none }} {{ t is "
       "boolean }} {{ t is true }} {{ 1 is true }}",
       "True True True True False True True True True True False True True True True False"},
      {"{{ range is callable }} {{ 4 is even }} {{ 3 is odd }} {{ 9 is divisibleby 3 }} {{ 1 is in "
       "[1] }} {{ 1 is eq 1 }} {{ 1 is sameas true }} {{ \"upper\" is filter }} {{ \"odd\" is test "
       "}} {{ \"ab\" is lower }} {{ \"AB\" is upper }} {{ l is not none }} {{ not missing is "
       "defined }} {{ 1 is eq 1 and 2 is gt 1 }}",
       "True True True True True True False True True True True True True True"},
  });
}

// What the render fails with; the line is that of the innermost expression.
TEST(TemplateLanguage, Errors) {
  const std::initializer_list<Case> cases = {
      {"{{ missing.name }}", "line 1: 'missing' is undefined"},
      {"\n{{ d.missing.name }}", "line 2: 'dict object' has no attribute 'missing'"},
      {"{{ l[7].x }}", "line 1: list object has no element 7"},
      {"{{ n.x.y }}", "line 1: 'None' has no attribute 'x'"},
      {"{{ s + 1 }}", "line 1: can only concatenate str (not \"int\") to str"},
      {"{{ 1 + s }}", "line 1: unsupported operand type(s) for +: 'int' and 'str'"},
      {"{{ 1 < s }}", "line 1: '<' not supported between instances of 'int' and 'str'"},
      {"{{ 1 in s }}", "line 1: 'in <string>' requires string as left operand, not int"},
      {"{{ 1 in 5 }}", "line 1: argument of type 'int' is not iterable"},
      {"{% for x in n %}{% endfor %}", "line 1: 'NoneType' object is not iterable"},
      {"{{ missing() }}", "line 1: 'missing' is undefined"},
      {"{{ i() }}", "line 1: 'int' object is not callable"},
      {"{{ i|length }}", "line 1: object of type 'int' has no len()"},
      {"{{ missing|tojson }}", "line 1: Object of type Undefined is not JSON serializable"},
      {"{{ l.append(1) }}", "line 1: access to attribute 'append' of 'list' object is unsafe."},
      {"{{ 1 / 0 }}", "line 1: division by zero"},
      {"{{ 9223372036854775807 + 1 }}", "line 1: integer overflow in + (integers have 64 bits)"},
      {"{{ 10 ** 19 }}", "line 1: integer overflow in ** (integers have 64 bits)"},
      {"{{ {[]: 1} }}", "line 1: unhashable type: 'list'"},
      {"{% set a, b = 1, 2, 3 %}", "line 1: too many values to unpack (expected 2)"},
      {"{% set d.x = 1 %}", "line 1: cannot assign attribute on non-namespace object"},
      {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
       "line 1: macro 'm' takes not more than 1 argument(s)"},
      {"{% macro m(a) %}{% endmacro %}{{ m(x=2) }}",
       "line 1: macro 'm' takes no keyword argument 'x'"},
      {"{{ s|replace('a') }}", "line 1: replace() is missing its argument 'new'"},
      {"{{ '%d' % s }}", "line 1: %d format: a real number is required, not str"},
      {"{% if t %}\n{{ s|from_json }}{% endif %}", "line 2: No filter named 'from_json' found."},
      {"{{ range(100001) }}",
       "line 1: Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000)."},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(RenderError(one.source, kContext), std::string("chat template ") + one.expected)
        << one.source;
  }
}

TEST(TemplateLanguage, RaiseExceptionComesThroughVerbatim) {
  EXPECT_EQ(RenderError("{{ raise_exception('No ' ~ s ~ '!') }}", kContext), "No Hello Wörld!");
}

TEST(TemplateLanguage, SyntaxErrors) {
  const std::initializer_list<Case> cases = {
      {"a\n  {% extends 'x' %}",
       "line 2, column 6: the tag 'extends' is not supported in chat templates"},
      {"{% include 'x' %}",
       "line 1, column 4: the tag 'include' is not supported in chat templates"},
      {"{% import 'x' as y %}",
       "line 1, column 4: the tag 'import' is not supported in chat templates"},
      {"{% block b %}{% endblock %}",
       "line 1, column 4: the tag 'block' is not supported in chat templates"},
      {"{% nonsense %}", "line 1, column 4: unknown tag 'nonsense'"},
      {"{% if t %}{% endfor %}",
       "line 1, column 14: unknown tag 'endfor', expected 'elif' or 'else' or 'endif'"},
      {"\n{% if t %}\n",
       "line 2, column 11: the template ends inside of 'if' of line 2: expected 'endif'"},
      {"{{ s|nonsense }}", "line 1, column 6: no filter named 'nonsense'"},
      {"{{ s is nonsense }}", "line 1, column 9: no test named 'nonsense'"},
      {"{{ }}", "line 1, column 4: expected an expression, got '}}'"},
      {"{{ (1 }}", "line 1, column 7: unexpected '}', expected ')'"},
      {"{{ 你 + }}", "line 1, column 8: expected an expression, got '}}'"},
      {"{{ 'abc }}", "line 1, column 4: a string is not closed"},
      {"{{ a ! b }}", "line 1, column 6: unexpected character '!'"},
      {"{# abc", "line 1, column 3: missing end of comment"},
      {"{% raw %} abc", "line 1, column 10: missing end of raw directive"},
      {"{% break %}", "line 1, column 4: 'break' outside of a loop"},
      {"{% set true = 1 %}", "line 1, column 8: cannot assign to 'true'"},
      {"{% macro m(a=1, b) %}{% endmacro %}",
       "line 1, column 17: a parameter without a default follows one with a default"},
      {"{{ f(a=1, 2) }}", "line 1, column 11: a positional argument follows a named one"},
      {"{{ 12345678901234567890 }}",
       "line 1, column 4: integer literal too large (integers have 64 bits)"},
      {"{{ '\\ud83d' }}",
       "line 1, column 4: a string escapes a number that is no Unicode character"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(RenderError(one.source), std::string("chat template ") + one.expected) << one.source;
  }
  EXPECT_EQ(RenderError("a\xff"), "chat template: byte 1 is not UTF-8");
}

// Empty texts, which have no bytes to point at.
TEST(TemplateLanguage, EmptyTexts) {
  ExpectRenders({
      {"{{ 'a' in e }} {{ '' in e }} {{ e.find('a') }} {{ e.count('a') }} {{ e.split('a') }} {{ "
       "e.split() }}",
       "False True -1 0 [''] []"},
      {"[{{ e.replace('a', 'b') }}{{ e.strip() }}{{ e[1:] }}{{ e|title }}{{ e * 3 }}{{ "
       "e.rpartition('a') }}]",
       "[('', '', '')]"},
  });
}

// transformers' tag for training masks renders as if it were not there, in a scope of its own.
TEST(TemplateLanguage, Generation) {
  EXPECT_EQ(RenderText("{% generation %}\nx{% set y = 1 %}{% endgeneration %}\n{{ y }}|"), "x|");
}

}  // namespace
}  // namespace erne
