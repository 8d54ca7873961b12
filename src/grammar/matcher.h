// The grammar of one answer while it is written.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "grammar/compiled_grammar.h"
#include "grammar/simulation.h"

namespace erne::grammar {

// Says which tokens may come next, so that what has come can always be brought to an end in the
// tokens that are left: a token may come if the shortest end behind it fits them, and when nothing
// else fits, only the tokens of the shortest end may. Used by one thread at a time.
//
// Shortest is meant in bytes, each of which is a token if need be; the tokens that spell the end
// are the fewest for those bytes.
class Matcher {
 public:
  // end_tokens: what may come, besides, where the answer may end. tokens_left: that the answer may
  // have; from grammar->shortest_answer() on it can be complete.
  Matcher(std::shared_ptr<const CompiledGrammar> grammar, std::vector<int32_t> end_tokens,
          int64_t tokens_left);

  // Bit t % 32 of word t / 32 is set where token t may come next: [vocabulary().mask_words()].
  std::span<const uint32_t> mask() const { return mask_; }
  // A token that mask() allows, and no end token. The next mask is made at once.
  void Accept(int32_t token, int64_t tokens_left);
  // From now on only a shortest end may come.
  void BeginEnd();

  // The answer may end here.
  bool may_end() const { return now_.ended; }
  // And nothing may follow.
  bool complete() const { return complete_; }

 private:
  void MakeMask(int64_t tokens_left);
  // Fills the mask with all that may come if there is room for it; returns the most bytes to the
  // end behind any of them.
  int64_t AllowAll();
  void AllowWithin(int64_t bytes);
  void AllowTokensAt(uint32_t node);
  void PlanEnd();

  std::shared_ptr<const CompiledGrammar> grammar_;
  std::vector<int32_t> end_tokens_;
  Simulation simulation_;
  ConfigSet now_;
  ConfigSet next_;                 // scratch of Accept
  std::vector<ConfigSet> levels_;  // scratch of walks
  std::vector<uint32_t> mask_;
  std::vector<Config> masked_;  // the configs that mask_ was made for; empty: none
  int64_t farthest_ = 0;        // what AllowAll said of them
  std::vector<int32_t>
      plan_;  // tokens of a shortest end from here, the last first; empty: none yet
  bool ending_ = false;
  bool complete_ = false;
};

}  // namespace erne::grammar
