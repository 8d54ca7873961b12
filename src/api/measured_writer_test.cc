#include "api/measured_writer.h"

#include <memory>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "api/test_writer.h"

namespace erne {
namespace {

TEST(MeasuredWriter, SaysHowTheAnswerEnded) {
  std::vector<int> ends;
  const auto make = [&ends] {
    return std::make_shared<MeasuredWriter>(
        std::make_shared<TestWriter>(), [&ends](int status, double) { ends.push_back(status); });
  };
  make()->Send({.status = 404});
  make();  // nobody answers: its client has gone
  try {
    const auto writer = make();
    throw std::runtime_error("a handler fails");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(ends, (std::vector<int>{404, 499, 500}));
}

}  // namespace
}  // namespace erne
