#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes template_vectors.json: what jinja2 gives for chat templates and for small expressions, in the environment that
transformers uses (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, its tojson and raise_exception). Run once,
when a case is added: python test/runtime/tokenizer/make_template_vectors.py (needs jinja2 3.1)."""
import datetime
import json
import pathlib

from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).resolve().parent

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  What is \"bio\"?\n<b>&'x' \u4f60\u597d \U0001f44b  "},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nLife."},
    {"role": "user", "content": "Thanks!"},
]
TOOLS = [{"type": "function", "function": {"name": "get", "description": "d\u00e9 <x>", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["a", "b"]}, "n": {"type": "number", "default": 1.5}},
    "required": ["city"]}}}]

# Whole templates in the manner of well-known ones (written for this test).
TEMPLATES = {
    "chatml": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
              "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "default_system": """
{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- 'calls' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "headers": """{{- bos_token }}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set date_string = "26 Jul 2024" if not date_string is defined else date_string %}
{#- a comment -#}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start|>system<|end|>\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- "Today Date: " + date_string + "\\n" + system_message + "<|eot|>" }}
{%- for message in messages %}
    {{- '<|start|>' + message['role'] + '<|end|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\\n\\n' }}
{%- endif %}
""",
    "alternating": """{%- if messages[0]["role"] == "system" %}{%- set system = messages[0]["content"] %}{%- set loop_messages = messages[1:] %}
{%- else %}{%- set loop_messages = messages %}{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('roles must alternate') }}
{%- endif %}
{%- if message["role"] == "user" %}
    {%- if loop.last and system is defined %}
        {{- "[INST] " + system + "\\n\\n" + message["content"] + "[/INST]" }}
    {%- else %}
        {{- "[INST] " + message["content"] + "[/INST]" }}
    {%- endif %}
{%- else %}
    {{- " " + message["content"] + eos_token}}
{%- endif %}
{%- endfor %}
""",
    "thinking": """{%- set ns = namespace(multi=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi and message.role == "user" and message.content is string and not(message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.multi = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last %}
            {{- '<A>' + reasoning.strip('\\n') + '|' + content }}
        {%- else %}
            {{- '<A>' + content }}
        {%- endif %}
    {%- else %}
        {{- '<' + message.role ~ loop.index ~ '>' + content }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<A>' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    "macros": """
{%- macro kind(spec, required=[], depth=0) -%}
  {%- if spec.type == "object" -%}
    {
    {%- for name, prop in spec.properties.items() -%}
      {{ name }}{{ '' if name in required else '?' }}: {{ kind(prop, depth=depth + 1) }}{{ ', ' if not loop.last }}
    {%- endfor -%}
    }
  {%- elif spec.enum -%}
    {%- for e in spec.enum %}"{{ e }}"{% if not loop.last %} | {% endif %}{% endfor -%}
  {%- else -%}
    {{ spec.type }}{% if spec.default is defined %} = {{ spec.default }}{% endif %}
  {%- endif -%}
{%- endmacro -%}
{%- for tool in tools or [] %}
// {{ tool.function.description | default('none') }}
type {{ tool['function']['name'] }} = {{ kind(tool.function.parameters, tool.function.parameters.required) }};
{% endfor %}
{% for message in messages if message.role != 'system' %}
{{ loop.index }}/{{ loop.length }} {{ message.role|upper }}: {{ message.content|trim|replace('\\n', ' ') }}
  {%- if not loop.last %}

{% endif %}
{% else %}
nobody
{% endfor %}
""",
    "generation": """{% for message in messages %}
    {% if message['role'] == 'assistant' %}
        {% generation %}{{ message['content'] + eos_token }}{% endgeneration %}
    {% else %}
        {{ message['content'] }}
    {% endif %}
{% endfor %}
""",
}

SNIPPETS = r"""
{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }}
{{ 1.0 }} {{ 1e16 }} {{ 1.5e-7 }} {{ 123456.789 }} {{ 1e15 }} {{ 0.1 + 0.2 }} {{ 100.0 * 3 }} {{ -0.0 }} {{ 1e300 * 10 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1, 'x'] }} {{ 'a' 'b' "c" }} {{ 'ab' * 3 }} {{ [1] * 2 + [3] }} {{ (1, 2) + (3,) }}
{{ 'it\'s "q"' }} {{ "tab\there\nnl\\ \x41 \u00e9 \U0001f600 \q" }}
{{ ['a\'b', 'c"d', 'e\'f"g', 'n\n\t\r\\', '\x07\u200b\u00e9\u4f60'] }} {{ {'a': [1, none], 2: true} }} {{ () }} {{ (1,) }} {{ [] }} {{ {} }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 'x' == none }} {{ (1,) == [1] }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}
{{ 1 in [1, 2] }} {{ 'a' in 'cat' }} {{ 'z' not in 'cat' }} {{ 'k' in {'k': 1} }} {{ 3 in missing }}
{{ 1 and 0 }} {{ 0 or 'x' }} {{ not 0 }} {{ not none and true }} {{ '' or [] or 'last' }}
{{ 'yes' if 1 else 'no' }} {{ 'yes' if 0 }} {{ 'a' if 0 else 'b' if 0 else 'c' }}
{{ missing }}|{{ missing is defined }}|{{ missing|default('d') }}|{{ ''|default('d') }}|{{ ''|default('d', true) }}|{{ none|d('x', boolean=true) }}
{{ messages[0].role }} {{ messages[-1]['content'] }} {{ messages[99] }} {{ messages[0].nope }} {{ messages[0]['nope'] }} {{ messages.0.role }}
{{ 'hello'[1] }} {{ 'hello'[-1] }} {{ 'hello'[1:3] }} {{ 'hello'[::-1] }} {{ 'hello'[:-2] }} {{ 'hello'[10:] }} {{ 'h\u00e9llo'[1:4:2] }} {{ [1, 2, 3, 4][::2] }} {{ [1, 2, 3][-2:] }} {{ [1,2,3][5:1:-1] }}
{{ '  x '|trim }}| {{ ' x '.strip() }}| {{ 'xxaxx'.strip('x') }}| {{ 'xxaxx'.lstrip('x') }}| {{ ' \u3000a '.rstrip() }}| {{ 'xay'|trim('xy') }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a-b-c'.split('-', 1) }} {{ ' a b  c '.split(none, 1) }} {{ 'abc'.split('x') }} {{ ''.split(',') }} {{ ''.split() }} {{ 'a\nb\r\nc\n'.splitlines() }}
{{ 'abcabc'.replace('b', 'X') }} {{ 'abcabc'.replace('b', 'X', 1) }} {{ 'abc'.replace('', '-') }} {{ 'aXbX'|replace('X', '..') }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'bc')) }} {{ 'abcb'.find('b') }} {{ 'abcb'.rfind('b') }} {{ 'abc'.find('z') }} {{ 'abcb'.count('b') }} {{ 'abc'.index('c') }} {{ '\u00e9\u00e9x'.find('x') }}
{{ 'hello world'.title() }} {{ "they're bill's"|title }} {{ 'hELLO'.capitalize() }} {{ 'hELLO wORLD'|capitalize }} {{ 'aBc'.upper() }} {{ 'aBc\u00c9'|lower }} {{ "it's".title() }} {{ 'foo-bar (baz)'|title }}
{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ '123'.isdigit() }} {{ ''.isdigit() }} {{ ' \t'.isspace() }} {{ 'ab1'.isalnum() }} {{ 'ab1'.isalpha() }}
{{ ', '.join(['a', 'b']) }} {{ ['a', 1, none]|join('-') }} {{ messages|join(',', attribute='role') }} {{ [1,2]|join }}
{{ [3, 1, 2]|sort }} {{ ['b', 'A', 'c']|sort }} {{ ['b', 'A', 'c']|sort(case_sensitive=true) }} {{ [3, 1, 2]|sort(reverse=true) }} {{ messages|sort(attribute='role')|map(attribute='role')|list }}
{{ [1, 2, 3]|first }} {{ [1, 2, 3]|last }} {{ []|first }} {{ 'abc'|last }} {{ [1, 2, 3]|length }} {{ 'h\u00e9'|count }} {{ {'a': 1}|length }} {{ 'abc'|list }} {{ {'a': 1, 'b': 2}|list }}
{{ [1, 2, 2, 'a', 'A']|unique|list }} {{ [1, 2, 3]|sum }} {{ [1, 5, 3]|max }} {{ ['b', 'a']|min }} {{ []|max }} {{ [1, 2, 3]|reverse|list }} {{ 'abc'|reverse }}
{{ [0, 1, '', 'x']|select|list }} {{ [1, 2, 3, 4]|select('even')|list }} {{ [1, 2, 3]|reject('odd')|list }} {{ [1, 2, 3]|select('gt', 1)|list }} {{ [1, 2, 3, 4, 6]|select('divisibleby', 2)|list }}
{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|list|length }} {{ messages|rejectattr('role', 'in', ['user', 'system'])|list|length }} {{ messages|selectattr('nope')|list }} {{ messages|selectattr('nope', 'undefined')|list|length }}
{{ ['a', 'b']|map('upper')|join }} {{ [' a ']|map('trim')|first }} {{ [{'a': {'b': 1}}]|map(attribute='a.b')|list }} {{ [{'a': [5]}]|map(attribute='a.0')|list }} {{ [{}]|map(attribute='x', default='z')|list }}
{{ {'b': 1, 'a': 2}|dictsort }} {{ {'b': 1, 'a': 2}|dictsort(by='value') }} {{ {'b': 1, 'a': 2}|items|list }} {{ {'a': 1}.items() |list }} {{ {'a': 1}.get('a') }} {{ {'a': 1}.get('x') }} {{ {'a': 1}.get('x', 'd') }} {{ {'a': 1}.keys()|list }} {{ {'a': 1}.values()|list }}
{{ '42'|int }} {{ '4.7'|int }} {{ 'x'|int }} {{ 'x'|int(-1) }} {{ 3.9|int }} {{ -3.9|int }} {{ ' 1_000 '|int }} {{ 'ff'|int(base=16) }} {{ true|int }} {{ '1e3'|int }} {{ '2.5'|float }} {{ 'x'|float }} {{ 3|float }} {{ 'x'|float(1.5) }}
{{ -3|abs }} {{ -2.5|abs }} {{ 2.5|round }} {{ 3.5|round }} {{ 2.567|round(2) }} {{ 2.1|round(method='ceil') }} {{ 2.9|round(0, 'floor') }} {{ 1|string ~ 2 }} {{ 5|string|length }}
{{ {'a': 1, 'b': [true, none, 1.5, 'x\n"\\/<>&\u00e9\x01']}|tojson }} {{ []|tojson }} {{ {}|tojson }} {{ 'a'|tojson }} {{ (1, 2)|tojson }} {{ {1: 2, none: 3, true: 4}|tojson }} {{ 1e100|tojson }}
{{ {'a': {'b': [1, 2]}, 'c': [], 'd': {}}|tojson(indent=2) }}
{{ {'b': 'd\u00e9\U0001f600\x7f', 'a': [1, {}]}|tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': {'d': 2, 'c': 3}}|tojson(sort_keys=true) }} {{ {'a': [1, 2]}|tojson(separators=(',', ':')) }} {{ [1, [2]]|tojson(indent=1, separators=(';', '=')) }}
{{ '<b>'|safe }} {{ '<b>'|safe + '<i>&"' + "'" }} {{ '<a>' + '<b>'|safe }} {{ '<b>'|safe ~ '<i>' }} {{ ('<b>'|safe + '<i>')|safe }} {{ 1|safe }}
{{ none|selectattr('x')|list }} {{ ''|map('upper')|list }} {{ none|select|list|length }} {{ '{} {}'.format(1, 'x') }} {{ '{1}{0}{a}{{}}'.format('p', 'q', a=none) }} {{ '\u4f60{}'.format([1]) }}
{{ strftime_now('%d %b %Y, %A %a %B %m %y %H:%M:%S %I %p %%') }} {{ strftime_now is defined }}
{{ tools|tojson }} {{ messages[1]|tojson }} {{ messages[1] }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, blank=true) }}|{{ 'a\nb'|indent('> ') }}
{{ 1 is number }} {{ true is number }} {{ 1.5 is float }} {{ 1 is integer }} {{ true is integer }} {{ 'a' is string }} {{ [] is sequence }} {{ {} is sequence }} {{ {} is mapping }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ none is none }} {{ missing is none }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ true is boolean }} {{ range is callable }} {{ missing is undefined }} {{ missing is sequence }}
{{ 3 is odd }} {{ 3 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(4) }} {{ 1 is eq 1 }} {{ 1 is ne(2) }} {{ 1 is lt 2 }} {{ 1 is ge 2 }} {{ 1 is in [1] }} {{ 'a' is lower }} {{ 'A' is upper }} {{ 'A1' is upper }} {{ '1' is upper }} {{ 1 is not none }} {{ not 1 is none }} {{ 'trim' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }}
{% for i in range(3) %}{{ i }}{{ loop.index }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }};{% endfor %}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }},{% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}{% for c in 'h\u00e9' %}[{{ c }}]{% endfor %}{% for x in missing %}x{% else %}none{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% else %}e{% endfor %}{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}{% for i in [] %}{% else %}empty{% endfor %}
{% for i in range(6) if i is odd %}{{ i }}/{{ loop.index }}/{{ loop.length }} {% endfor %}{% for i in [1,2] %}{% for j in [3,4] %}{{ i }}{{ j }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(n=0, s='') %}{% for i in [1, 2, 3] %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }}{{ ns.s }}{{ ns.nope is defined }}
{% set a, b = 1, 'two' %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set (c, d) = [3, 4] %}{{ c + d }}
{% set block %}  inner {{ 1 + 1 }} {% endset %}[{{ block }}]{% set up | trim | upper %} text {% endset %}[{{ up }}]{% filter upper %}abc {{ 'd' }}{% endfilter %}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}
{% macro m(a, b='B', c=a) %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m('x') }}{{ m('x', 'y') }}{{ m(b=1, a=2) }}{{ m() }}{{ m('q', c=5)|upper }}
{% macro fact(n) %}{% if n > 1 %}{{ n * fact(n - 1)|int }}{% else %}1{% endif %}{% endmacro %}{{ fact(5) }}{% set g = 7 %}{% macro useg() %}{{ g }}{% endmacro %}{{ useg() }}{% set g = 8 %}{{ useg() }}
{% raw %}{{ not }} {% a %}{% endraw %}|{# comment #}|{%- raw -%}  x  {%- endraw -%}  |
{{ dict(a=1, b=2) }} {{ dict({'z': 1}, y=2) }} {{ range(4)|list }} {{ range(1, 7, 3)|list }} {{ [[1, 2], [3]]|length }} {{ {'a': {'b': 'c'}}.a.b }} {{ {'items': 5}['items'] }} {{ {'k': 1}['k'] }}
{{ messages|map(attribute='role')|join(' ') }} {{ (messages|first).role }} {{ messages[1:3]|length }} {{ messages[-1].role in ['user', 'tool'] }} {{ messages is iterable and messages is not mapping }}
{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}{{ tools is none }}{{ documents is none }}{{ extra.deep[1].x }}{{ enable_thinking }}{{ extra }}
{{ 1 }}{{- 2 }} {{- 3 -}}  {{ 4 -}}
  {{ 5 }}
{{ '}}' }} {{ "{%" }} {{ {'a': {'b': 1}}['a']['b'] }} {{ {'x': '}'} }}
{% if false %}a{% elif none %}b{% elif 1 %}c{% else %}d{% endif %}{% if not messages %}n{% endif %}{% if messages and messages[0] %}m{% endif %}
{{ "%d" }} {{ 5 if messages|length > 3 else 6 }} {{ (1 if true else 2) + 3 }} {{ [1, 2,] }} {{ {'a': 1,} }} {{ 1_000 }} {{ 0 }} {{ 00 }}
""".strip("\n").split("\n")

# Layout cases with several lines.
LAYOUT = [
    "{% if 1 %}\n  a\n{% endif %}\n\nb\n", "  {% if 1 %}  \n x{% endif %}\ny\n\n", "a\n  {%- if 1 %}\nb\n{%- endif %}\nc", "x\n   {{ 1 }}\n y\n",
    "\n\n{# c #}\n  {# d #}  \nz", "{% for i in [1,2] %}\n  - {{ i }}\n{% endfor %}\nend\n", "\r\na\r\n{% if 1 %}\r\nb\r{% endif %}\r\nc\r\n",
    "{%+ if 1 %} a{% endif %}\n  {%+ if 1 %}b{% endif +%}\nc", "{{ 1 -}}\n  \n x {{- 2 }}\n", "{% raw %}\n {{ x }}\n{% endraw %}\n y", "  {% raw %} q {% endraw %} ",
    "{%- for m in messages -%}\n {{ m.role }}\n{%- endfor -%}\n", "{% set x = 1 -%}\n\n   {{ x }}", "a {#- c -#} b", "\n", "", "\n\n", "text only\n", "{{ 1 }}\n{{ 2 }}\n{# x #}\n{{ 3 }}\n",
    "   {% if 1 %}\nb\n   {% endif %}\nx {% if 1 %} y {% endif %}\n\t{%- if true -%}\n\n t\n\n{%- endif -%}\n q", "{{ '' }}\n{{ 'a' }}\t{# c #}\n",
    "{{\n 1 +\n 2 }}", "{%\nif 1\n%}y{%\nendif\n%}", "\t{% if 1 %}\tx\n\t{% endif %}\ty", "a{% if 1 %}\n\n\nb{% endif %}", "{% if 1 %}{# c #}\nq{% endif %}\n\n",
]

# Where jinja2 raises; the test only asks that we do too, with the line given here.
ERRORS = [
    ("{{ missing.x }}", 1), ("\n{{ missing['x'] }}", 2), ("{{ missing() }}", 1), ("a\n\n{{ 1 + 'a' }}", 3), ("{{ 1 / 0 }}", 1), ("{{ 'a' < 1 }}", 1), ("{{ 1 < none }}", 1),
    ("{{ raise_exception('no way') }}", 1), ("{% for x in 5 %}{% endfor %}", 1), ("{{ [1].append(2) }}", 1), ("{{ {}.update({}) }}", 1), ("{{ missing + 'x' }}", 1), ("{{ 1() }}", 1),
    ("{{ 'a'.nope() }}", 1), ("{{ none.x.y }}", 1), ("{% set a, b = [1] %}", 1), ("{{ range(1000000) }}", 1), ("{{ [1]|nofilter }}", 1), ("{{ 1 is notest }}", 1), ("{% if %}x{% endif %}", 1),
    ("{{ 1 + }}", 1), ("{% for x %}{% endfor %}", 1), ("\n{% if 1 %}", 2), ("{% endif %}", 1), ("{{ 'abc }}", 1), ("{{ (1 }}", 1), ("{{ 1) }}", 1), ("{% unknown %}", 1), ("{{ a b }}", 1), ("{# open", 1),
    ("{{ 1", 1), ("{% raw %}x", 1), ("x\n{{ [1,2 }}\n", 2), ("{% set 1 = 2 %}", 1), ("{% set x.y = 1 %}", 1), ("{% break %}", 1), ("{{ 'a'|int('x', 'y', 'z') }}", 1), ("{{ 'x' in 5 }}", 1), ("{{ 5|length }}", 1),
    ("{{ [1, 'a']|sort }}", 1), ("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", 1), ("{% macro m(a) %}{% endmacro %}{{ m(z=2) }}", 1), ("{{ missing|tojson }}", 1), ("{{ {[]: 1} }}", 1), ("{{ 1 ! 2 }}", 1),
    ("{{ foo(a=1, 2) }}", 1), ("{{ ''.join([1]) }}", 1), ("{{ 'abc'.index('z') }}", 1), ("{{ messages|selectattr('a.b', 'x') |list }}", 1), ("{% include 'x' %}", 1), ("{{ messages.append(1) }}", 1),
]


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def generation_extension():
    from jinja2 import nodes
    from jinja2.ext import Extension

    class Generation(Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

        def _run(self, caller):
            return caller()

    return Generation


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[generation_extension(), loopcontrols])
    env.filters["tojson"] = tojson

    def raise_exception(message):
        raise TemplateError(message)

    env.globals["raise_exception"] = raise_exception
    now = datetime.datetime.fromtimestamp(1722006245, datetime.timezone.utc)  # ChatTemplateTest.cpp gives the same
    env.globals["strftime_now"] = now.strftime
    return env


VARIABLES = {"extra": {"deep": [1, {"x": "y"}], "z": None, "f": 0.5}, "enable_thinking": False, "tools": TOOLS}


def render(text, messages, generation, variables):
    values = {"tools": None, "documents": None, **variables}
    return environment().from_string(text).render(
        messages=messages, add_generation_prompt=generation, bos_token="<s>", eos_token="</s>", **values)


def main():
    cases = []
    for name, text in TEMPLATES.items():
        for messages in (MESSAGES[:2], MESSAGES, MESSAGES[1:]):
            for generation in (True, False):
                for variables in ({}, VARIABLES):
                    try:
                        output = render(text, messages, generation, variables)
                    except Exception:  # pylint: disable=broad-except
                        output = None  # an error is expected
                    first, count = MESSAGES.index(messages[0]), len(messages)
                    cases.append([name, first, count, generation, bool(variables), output])
    snippets = []
    for text in SNIPPETS + LAYOUT:
        for variables in ({}, VARIABLES) if "tools" in text or "extra" in text else ({},):
            try:
                output = render(text, MESSAGES, True, variables)
            except Exception as error:  # pylint: disable=broad-except
                print("no vector:", repr(text[:100]), type(error).__name__, error)
                continue
            snippets.append([text, bool(variables), output])
    errors = []
    for text, line in ERRORS:
        try:
            output = render(text, MESSAGES, True, {})
            print("jinja2 does not refuse", repr(text), "->", repr(output)[:60])
        except Exception:  # pylint: disable=broad-except
            errors.append([text, line])
    result = {"messages": MESSAGES, "variables": VARIABLES, "templates": TEMPLATES, "cases": cases, "snippets": snippets, "errors": errors}
    (HERE / "template_vectors.json").write_text(json.dumps(result, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
