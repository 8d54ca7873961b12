#!/usr/bin/env python3
"""Writes class_tables.cc, case_tables.cc and normalization_tables.cc from Python's copy of the Unicode Character Database.

usage: make_tables.py [FOLDER]      into FOLDER, or else beside this script (made with Python 3.11: Unicode 14.0)
"""
import pathlib
import sys
import unicodedata

WIDTH = 100
CODE_POINTS = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]


def ranges(value_of):
    """Runs of code points with the same value, as (first, last, value); those with the value 0 are left out."""
    runs = []
    for c in CODE_POINTS:
        value = value_of(chr(c))
        if not value:
            continue
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == value:
            runs[-1][1] = c
        else:
            runs.append([c, c, value])
    return runs


def class_of(is_member):
    return [run[:2] for run in ranges(is_member)]


def is_unprintable(c):
    """Not str.isprintable; but what Unicode assigns later is most likely printable."""
    return not c.isprintable() and unicodedata.category(c) != "Cn"


def case_ranges(convert):
    """(first, last, stride, delta) for all that `convert` turns into one other character: no two ranges overlap."""
    runs = []
    for c in CODE_POINTS:
        converted = convert(chr(c))
        if len(converted) != 1 or converted == chr(c):
            continue
        delta = ord(converted) - c
        if runs and runs[-1][3] == delta:
            first, last, stride, _ = runs[-1]
            if c - last == stride or (first == last and c - last == 2):
                runs[-1][1:3] = c, c - last
                continue
        runs.append([c, c, 1, delta])
    return runs


def case_expansions():
    """(character, upper, title) of all whose upper case has several characters."""
    return [(c, chr(c).upper(), chr(c).title()) for c in CODE_POINTS if len(chr(c).upper()) > 1]


def decompositions():
    """(composed, first, second, composes) of every canonical decomposition but Hangul's, which is arithmetic."""
    rows = []
    for c in CODE_POINTS:
        mapping = unicodedata.decomposition(chr(c))
        if not mapping or mapping.startswith("<"):
            continue
        parts = [int(part, 16) for part in mapping.split()]
        composes = len(parts) == 2 and unicodedata.normalize("NFC", "".join(map(chr, parts))) == chr(c)
        rows.append((c, parts[0], parts[1] if len(parts) == 2 else 0, composes))
    return rows


def literal(value):
    if isinstance(value, str):
        return '"' + "".join(c if c.isascii() else f"\\u{ord(c):04X}" for c in value) + '"'
    return f"0x{value:X}" if value > 9 else str(int(value))


def table(type_name, name, rows):
    lines = [""]
    for row in rows:
        item = "{" + ",".join(map(literal, row)) + "},"
        if len(lines[-1]) + len(item) > WIDTH:
            lines.append("")
        lines[-1] += item
    return (f"constexpr {type_name} {name}Rows[] = {{\n" + "\n".join(lines) + "\n};\n",
            f"constinit const std::span<const {type_name}> {name} = {name}Rows;\n")


def write(path, *tables):
    rows, spans = zip(*tables)
    path.write_text(
        "// Written by make_tables.py from the Unicode Character Database, version "
        f"{unicodedata.unidata_version}. Do not\n// edit.\n"
        '#include "base/unicode/tables.h"\n\nnamespace erne::unicode {\nnamespace {\n\n// clang-format off\n'
        + "\n".join(rows) + "// clang-format on\n\n}  // namespace\n\n" + "".join(spans)
        + "\n}  // namespace erne::unicode\n")


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    write(folder / "class_tables.cc",
          table("Range", "kLetters", class_of(lambda c: unicodedata.category(c).startswith("L"))),
          table("Range", "kNumbers", class_of(lambda c: unicodedata.category(c).startswith("N"))),
          table("Range", "kDecimalDigits", class_of(lambda c: unicodedata.category(c) == "Nd")),
          table("Range", "kUnprintable", class_of(is_unprintable)))
    write(folder / "case_tables.cc",
          table("CaseRange", "kToLower", case_ranges(str.lower)),
          table("CaseRange", "kToUpper", case_ranges(str.upper)),
          table("CaseExpansion", "kUpperExpansions", case_expansions()))
    write(folder / "normalization_tables.cc",
          table("CombiningRange", "kCombining", ranges(unicodedata.combining)),
          table("Decomposition", "kDecompositions", decompositions()))


if __name__ == "__main__":
    main()
