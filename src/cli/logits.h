// `erne logits MODEL --ids 5,6,7`: the raw numbers of a model, without tokenizer, sampler or
// engine: the door for comparing erne with any other implementation.
#pragma once

#include <string>
#include <vector>

namespace erne {

// Prints one JSON object to standard output:
//   {"logits": [[...]],        one row of [vocab] per prompt position
//    "greedy_ids": [...],      the --greedy N most probable continuation (ties: the lower id). It
//    does not stop at an
//                              end-of-text token: exactly N ids, fewer only when the model's
//                              context is full.
//    "experts": {"1": [[...]]} per MoE layer: the chosen experts of each prompt position, best
//    first}
// Numbers are printed so that they read back exactly; one that is not finite is null.
// Returns the exit code: 0; 1 with a sentence on standard error and nothing on standard output; 2
// for a wrong command line.
int RunLogits(const std::vector<std::string>& arguments);

}  // namespace erne
