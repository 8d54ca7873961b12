#include "cli/terminal.h"

#include <csignal>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace erne {
namespace {

using Event = LineReader::Event;

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_), 0); }
  ~Pipe() {
    ::close(ends_[0]);
    Close();
  }
  int reader() const { return ends_[0]; }
  void Write(const std::string& text) const {
    EXPECT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void Close() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST(LineReaderTest, LinesAndARestWithoutAnEnd) {
  Pipe pipe;
  pipe.Write("a\n\nb\r\nrest");
  pipe.Close();
  LineReader reader(pipe.reader(), nullptr);
  std::string line;
  std::vector<std::string> lines;
  while (reader.Next(line) == Event::kLine) lines.push_back(line);
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "", "b\r", "rest"}));
  EXPECT_EQ(reader.Next(line), Event::kEnd);
}

TEST(LineReaderTest, ALineMayComeInPieces) {
  Pipe pipe;
  const std::string half(10'000, 'x');
  std::thread writer([&] {
    pipe.Write(half);
    pipe.Write(half + "\n");
  });
  LineReader reader(pipe.reader(), nullptr);
  std::string line;
  EXPECT_EQ(reader.Next(line), Event::kLine);
  EXPECT_EQ(line, half + half);
  writer.join();
}

TEST(LineReaderTest, AnInterruptForgetsWhatWasBegun) {
  Pipe pipe;
  const auto wakeup = Wakeup::Create().value();
  const CatchInterrupts catching(wakeup);
  LineReader reader(pipe.reader(), wakeup);
  std::string line;
  pipe.Write("one\nbegun");
  EXPECT_EQ(reader.Next(line), Event::kLine);
  std::raise(SIGINT);
  EXPECT_EQ(reader.Next(line), Event::kInterrupt);
  pipe.Write("two\n");
  EXPECT_EQ(reader.Next(line), Event::kLine);
  EXPECT_EQ(line, "two");
}

TEST(WakeupTest, IsRaisedUntilItIsTaken) {
  const auto wakeup = Wakeup::Create().value();
  const auto other = Wakeup::Create().value();
  EXPECT_FALSE(wakeup->Take());
  std::thread raiser([&] { wakeup->Raise(); });
  WaitForEither(*other, wakeup.get());
  raiser.join();
  wakeup->Raise();
  EXPECT_TRUE(wakeup->Take());
  EXPECT_FALSE(wakeup->Take());
  EXPECT_FALSE(other->Take());
}

TEST(ForTerminalTest, NothingThatATerminalObeys) {
  EXPECT_EQ(ForTerminal("你好\n\tx 𠮷é"), "你好\n\tx 𠮷é");
  EXPECT_EQ(ForTerminal("a\x1b[2Jb\rc\x07\x7f\xc2\x9b"
                        "d\xff"),
            "a[2Jbcd");
}

}  // namespace
}  // namespace erne
