#!/usr/bin/env python3
"""Writes unicode_tables.cc from Python's copy of the Unicode Character Database.

usage: make_unicode_tables.py > unicode_tables.cc      (made with Python 3.11: Unicode 14.0)
"""

import sys
import unicodedata

CODE_POINTS = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]


def ranges(value_of):
    """Runs of code points with the same value, as (first, last, value); those with the value 0 are left out."""
    runs = []
    for c in CODE_POINTS:
        value = value_of(c)
        if not value:
            continue
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == value:
            runs[-1][1] = c
        else:
            runs.append([c, c, value])
    return runs


def decompositions():
    """(composed, first, second, composes) of every canonical decomposition but Hangul's, which is arithmetic."""
    rows = []
    for c in CODE_POINTS:
        mapping = unicodedata.decomposition(chr(c))
        if not mapping or mapping.startswith("<"):
            continue
        parts = [int(part, 16) for part in mapping.split()]
        composes = len(parts) == 2 and unicodedata.normalize("NFC", "".join(map(chr, parts))) == chr(c)
        rows.append((c, parts[0], parts[1] if len(parts) == 2 else 0, int(composes)))
    return rows


def emit(type_name, name, rows):
    print(f"const {type_name} {name}[] = {{")
    line = ""
    for row in rows:
        item = "{" + ",".join(f"0x{v:X}" if v > 9 else str(v) for v in row) + "},"
        if len(line) + len(item) > 100:
            print(line)
            line = ""
        line += item
    print(line)
    print("};")
    print(f"const size_t {name}Size = {len(rows)};\n")


def main():
    print("// Written by make_unicode_tables.py from the Unicode Character Database, version "
          f"{unicodedata.unidata_version}. Do not edit.")
    print('#include "text/unicode_tables.h"\n\nnamespace erne {\n\n// clang-format off')
    category = lambda first: ranges(lambda c: unicodedata.category(chr(c)).startswith(first))
    emit("CodePointRange", "kLetters", [run[:2] for run in category("L")])
    emit("CodePointRange", "kNumbers", [run[:2] for run in category("N")])
    emit("CombiningRange", "kCombining", ranges(lambda c: unicodedata.combining(chr(c))))
    emit("Decomposition", "kDecompositions", decompositions())
    print("// clang-format on\n\n}  // namespace erne")


if __name__ == "__main__":
    main()
