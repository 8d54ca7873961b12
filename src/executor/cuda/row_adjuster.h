// What a request does to its logits (sampling/logit_adjuster.h), for a block of threads and a part
// of a row. Block: see row_sampler.h.
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "executor/cuda/row_sampler.h"
#include "sampling/draw_rules.h"

namespace erne::cuda {

template <typename Block>
class RowAdjuster {
 public:
  // words: of the plan that `task` is from. Of the row: tokens [begin, end).
  ERNE_HD RowAdjuster(Block& block, const RowTask& task, const uint32_t* words, int begin, int end)
      : block_(block), task_(task), words_(words), begin_(begin), end_(end) {}

  // raw, adjusted: [vocab]. In the order of LogitAdjuster.
  ERNE_HD void Adjust(const float* raw, float* adjusted) {
    ForEach([&](int token) { adjusted[token] = IsAllowed(token) ? raw[token] : kBanned; });
    ForEachListed(task_.banned, task_.num_banned, 1,
                  [&](int token, uint32_t) { adjusted[token] = kBanned; });
    ForEachListed(task_.biases, task_.num_biases, 2, [&](int token, uint32_t bias) {
      adjusted[token] = sampling::Biased(adjusted[token], __builtin_bit_cast(float, bias));
    });
    if (task_.seen >= 0) {
      ForEach([&](int token) {
        if (!Holds(task_.seen, token)) return;
        adjusted[token] = sampling::Repeated(adjusted[token], task_.repetition_penalty);
      });
    }
    ForEachListed(task_.counted, task_.num_counted, 2, [&](int token, uint32_t count) {
      adjusted[token] = sampling::Counted(adjusted[token], static_cast<int32_t>(count),
                                          task_.frequency_penalty, task_.presence_penalty);
    });
  }

 private:
  static constexpr float kBanned = -__builtin_inff();

  ERNE_HD bool Holds(int32_t bitmap, int token) const {
    return (words_[bitmap + token / 32] >> (token % 32) & 1) != 0;
  }
  ERNE_HD bool IsAllowed(int token) const {
    return (task_.allowed < 0 || Holds(task_.allowed, token)) &&
           (task_.mask < 0 || Holds(task_.mask, token));
  }
  template <typename Body>
  ERNE_HD void ForEach(const Body& body) {
    block_.For(end_ - begin_, [&](int i) { body(begin_ + i); });
  }
  // body(token, the last word) for the entries of a list that lie in the part. A token occurs once,
  // or all its entries do the same.
  template <typename Body>
  ERNE_HD void ForEachListed(int32_t offset, int32_t count, int32_t width, const Body& body) {
    block_.For(count, [&](int i) {
      const uint32_t* const entry = words_ + offset + i * width;
      const auto token = static_cast<int>(entry[0]);
      if (token >= begin_ && token < end_) body(token, entry[width - 1]);
    });
  }

  Block& block_;
  const RowTask& task_;
  const uint32_t* words_;
  int begin_;
  int end_;
};

}  // namespace erne::cuda
