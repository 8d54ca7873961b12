#include "text/detokenizer.h"

#include <cstdio>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "text/test_support.h"
#include "text/tokenizer.h"

namespace erne {
namespace {

TEST(Detokenizer, HoldsBackUnfinishedCharacters) {
  TestSentencePiece model = SmallModel();
  model.byte_fallback = true;
  for (int byte = 0; byte < 256; ++byte) {
    char piece[8];
    std::snprintf(piece, sizeof(piece), "<0x%02X>", byte);
    model.pieces.push_back({piece, 0, 6});
  }
  const TestFiles files({{"tokenizer.model", model.Serialize()}});
  const TokenizerPtr tokenizer = MustLoad(files);
  const auto byte = [](int value) { return 8 + value; };
  Detokenizer detokenizer(*tokenizer, true);
  EXPECT_EQ(detokenizer.Add(byte(0xF0)), "");
  EXPECT_EQ(detokenizer.Add(byte(0x9F)), "");
  EXPECT_EQ(detokenizer.Add(1), "");  // a skipped token between them does not part them
  EXPECT_EQ(detokenizer.Add(byte(0x98)), "");
  EXPECT_EQ(detokenizer.Add(byte(0x80)), "😀");
  EXPECT_EQ(detokenizer.Add(byte(0xE4)), "");
  EXPECT_EQ(detokenizer.Add(3), "\uFFFDa");  // can never become a character
  EXPECT_EQ(detokenizer.Add(byte(0x80)), "\uFFFD");
  EXPECT_EQ(detokenizer.Add(byte(0xE4)), "");
  EXPECT_EQ(detokenizer.Add(byte(0xBD)), "");
  EXPECT_EQ(Stream(*tokenizer, {1, 3, 0}, false), "<s>a<unk>");
}

TEST(Detokenizer, StreamsWhatDecodeGives) {
  const TokenizerPtr tokenizer = MustLoadFolder(SourceFolder("models/erne-mini"));
  std::mt19937 random(4);
  for (int round = 0; round < 1000; ++round) {
    Ids ids(random() % 30);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % (random() % 2 == 0 ? 300 : 16384));
    for (const bool skip_special : {false, true}) {
      // Decode shows the beginning of a character at the very end as one U+FFFD; a stream waits for
      // the rest.
      const std::string streamed = Stream(*tokenizer, ids, skip_special);
      const std::string whole = tokenizer->Decode(ids, skip_special);
      if (whole != streamed + "\uFFFD") {
        ASSERT_EQ(streamed, whole);
      }
    }
  }
}

}  // namespace
}  // namespace erne
