// The committed expected values of a model folder. These files are our own, so a malformed one ends
// the program (CHECK).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/file_set.h"
#include "base/status.h"

namespace erne::golden {

// What one router said for each prompt position, best expert first.
struct ExpectedRouter {
  int64_t layer = 0;
  std::vector<std::vector<float>> logits;   // [positions][experts]
  std::vector<std::vector<float>> weights;  // [positions][top_k]
  std::vector<std::vector<int32_t>> ids;    // [positions][top_k]
};

// expected.json: a float32 run of transformers 5.17.
struct Expected {
  std::string
      dtype;  // in which the model was built: "torch.bfloat16"; "" when the file does not say
  std::vector<int32_t> prompt;
  std::vector<int32_t> greedy;                        // the continuation
  std::map<int64_t, std::vector<float>> logits_rows;  // position -> [vocab], rounded to 6 decimals
  std::vector<int32_t> argmax;                        // [positions]
  std::vector<float> logsumexp;                       // [positions], rounded to 6 decimals
  std::vector<ExpectedRouter> routers;
};

// One case of expected_greedy.json: a float64 forward pass.
struct ExpectedGreedy {
  std::vector<int32_t> prompt;
  std::vector<int32_t> ids;
  std::vector<float> margins;  // logit of ids[i] less the next best, rounded to 4 decimals
};

Result<Expected> ReadExpected(const FileSet& files);
Result<std::vector<ExpectedGreedy>> ReadExpectedGreedy(const FileSet& files);

}  // namespace erne::golden
