// Grammars in GBNF, the form of llama.cpp and of XGrammar (vLLM's `grammar`):
//
//   root  ::= item ("," item)*      # where an answer begins
//   item  ::= "text" | [a-z0-9]+ | . | number{2,4} | (a | b)?
//
// Rules by name (letters, digits, - and _), in any order and over any number of lines; a rule ends
// where the next name with ::= begins. Texts in "" with the escapes of C and \uXXXX, classes as in
// regular expressions, `.` for any character, | ( ) * + ? {m} {m,} {m,n}; # begins a comment.
// Rules may hold themselves, but not at their beginning (left recursion).
#pragma once

#include <string_view>

#include "base/status.h"
#include "grammar/expression.h"

namespace erne::grammar {

// InvalidArgument with the place of the fault.
Result<Grammar> ParseEbnf(std::string_view text);

}  // namespace erne::grammar
