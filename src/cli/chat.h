// `erne chat [MODEL]`: a conversation in the terminal, or through a pipe.
#pragma once

#include <string>
#include <vector>

namespace erne {

// Loads the model into this process and answers what standard input says until it ends. Answers go
// to standard output; prompts, notices and errors to standard error. On a terminal ^C stops the
// running answer. Returns the exit code: 0; 1 when the model cannot be loaded, or when some input
// of a pipe could not be answered; 2 for a wrong command line.
int RunChat(const std::vector<std::string>& arguments);

}  // namespace erne
