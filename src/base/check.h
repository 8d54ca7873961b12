// ERNE_CHECK: a broken invariant ends the process with file, line and message, in release builds too. It is for
// our own mistakes; input from outside is answered with a Status instead.
#pragma once

#include <sstream>

namespace erne {

// Collects the message of a failed check and aborts when it goes out of scope.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Lets the macro be one expression: `&` binds looser than `<<`, and turns the stream into void.
struct CheckVoidify {
  void operator&(std::ostream&) const {}
};

}  // namespace erne

#define ERNE_CHECK(condition)                  \
  (condition) ? (void)0                        \
              : ::erne::CheckVoidify() &       \
                    ::erne::CheckFailure(__FILE__, __LINE__, #condition).stream()

#ifdef NDEBUG
#define ERNE_DCHECK(condition) ERNE_CHECK(true || (condition))
#else
#define ERNE_DCHECK(condition) ERNE_CHECK(condition)
#endif
