// `erne inspect [MODEL]`: what a model is made of, and what it would take to serve it here.
#pragma once

#include <string>
#include <vector>

namespace erne {

// Reads config.json and the headers of the weights: quick however large the model is, and without
// tokenizer. Checks all that loading checks but the elements. Returns the exit code: 0; 1 with a
// sentence on standard error when the model cannot be loaded; 2 for a wrong command line.
int RunInspect(const std::vector<std::string>& arguments);

}  // namespace erne
