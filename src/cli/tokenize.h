// `erne tokenize [MODEL] --text T`: text to token ids and back, as the model's tokenizer does it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace erne {

// Prints the ids as one JSON array; with --pieces one line for each; with --decode the text of ids;
// with --check whether the text comes back. Returns the exit code: 0; 1 with a sentence on standard
// error, and when --check finds a difference; 2 for a wrong command line.
int RunTokenize(const std::vector<std::string>& arguments);

}  // namespace erne
