// The chat forms that this program ships with or was written for, and the language of templates.
// Expected texts are those of Jinja2 3.1.6 with transformers' settings.
#include "chat/template.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "base/json.h"
#include "chat/test_render.h"

namespace erne {
namespace {

// A conversation with one answered question.
constexpr const char* kConversation = R"({"messages": [
  {"role": "system", "content": "Be brief."},
  {"role": "user", "content": "Hi\nthere"},
  {"role": "assistant", "content": "你好"},
  {"role": "user", "content": " bye "}]})";

TEST(ChatForms, ErnieMini) {
  const char* source = std::getenv("ERNE_SOURCE");
  ASSERT_NE(source, nullptr);
  std::ifstream in(std::string(source) + "/models/erne-mini/recipe/chat_template.jinja");
  ASSERT_TRUE(in.good());
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(RenderText(text.str(), kConversation),
            "<|begin_of_sentence|>Be brief.\nUser: Hi\nthere\nAssistant: 你好<|end_of_sentence|>"
            "User:  bye \nAssistant: ");
  EXPECT_EQ(
      RenderText(
          text.str(),
          R"({"add_generation_prompt": false, "messages": [{"role": "user", "content": "a"}]})"),
      "<|begin_of_sentence|>User: a\n");
}

// ERNIE-4.5's form: defaults set at the top, concatenation, white space trimmed everywhere.
TEST(ChatForms, Ernie45) {
  const std::string form = R"({%- if not add_generation_prompt is defined -%}
    {%- set add_generation_prompt = true -%}
{%- endif -%}
{%- if not begin is defined -%}
    {%- set begin = "<|begin_of_sentence|>" -%}
{%- endif -%}
{%- if not end is defined -%}
    {%- set end = "<|end_of_sentence|>" -%}
{%- endif -%}
{{- begin -}}
{%- for turn in messages -%}
    {%- if turn["role"] == "system" -%}
        {{- turn["content"] + "\n" -}}
    {%- elif turn["role"] == "user" -%}
        {{- "User: " + turn["content"] + "\n" -}}
    {%- elif turn["role"] == "assistant" -%}
        {{- "Assistant: " + turn["content"] + end -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- "Assistant: " -}}
{%- endif -%})";
  EXPECT_EQ(RenderText(form, kConversation),
            "<|begin_of_sentence|>Be brief.\nUser: Hi\nthere\nAssistant: 你好<|end_of_sentence|>"
            "User:  bye \nAssistant: ");
  EXPECT_EQ(RenderText(form, R"({"begin": "<s>", "messages": [], "add_generation_prompt": false})"),
            "<s>");
  EXPECT_EQ(
      RenderError(
          form, R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]})"),
      "chat template line 15: can only concatenate str (not \"list\") to str");
}

// The thinking model's form: a namespace that a backwards loop fills, splitting at tags, tools as
// JSON.
TEST(ChatForms, ErnieThinking) {
  const std::string form = R"({%- set ns = namespace(open=true, last=messages|length - 1) %}
{%- for turn in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.open and turn.role == "user" and turn.content is string and not(turn.content.startswith('<tool>') and turn.content.endswith('</tool>')) %}
        {%- set ns.open = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- if tools %}{{- "<tool_list>[" }}{% for tool in tools %}{{'{"function": '}}{{-(tool.function | tojson)}}}{%-if not loop.last%},{%- endif %}{%endfor%}{{- "]</tool_list>
" }}{%- endif %}
{%- for turn in messages %}
    {%- if turn.role == "assistant" %}
        {%- set thoughts = '' %}
        {%- set content = turn.content %}
        {%- if '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].rstrip('
').split('<think>')[-1].lstrip('
') %}
            {%- set content = content.split('</think>')[-1].lstrip('
') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and thoughts)) %} {{- '<think>
' + thoughts.strip('
') + '
</think>
' }} {%- endif %}
        {{- '<response>
' + content + '
</response>
' }}
    {%- else %}
        {{- turn.role + ': ' + turn.content + '
' }}
    {%- endif %}
{%- endfor %})";
  EXPECT_EQ(RenderText(form, R"({
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "n": 1.0}}},
              {"type": "function", "function": {"name": "\"é\""}}],
    "messages": [{"role": "user", "content": "q"},
                 {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes"},
                 {"role": "user", "content": "<tool>7</tool>"},
                 {"role": "assistant", "content": "done"}]})"),
            "<tool_list>[{\"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", "
            "\"n\": 1.0}}},"
            "{\"function\": {\"name\": \"\\\"é\\\"\"}}]</tool_list>\n"
            "user: q\n<think>\nhm\n</think>\n<response>\nyes\n</response>\nuser: <tool>7</tool>\n"
            "<think>\n\n</think>\n<response>\ndone\n</response>\n");
}

}  // namespace
}  // namespace erne
