// A string value of a template: UTF-8 bytes, and for each byte whether the template (or the server)
// wrote it. Nearly all texts are trusted or untrusted as a whole; only those that join both kinds
// carry a list of runs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_piece.h"
#include "chat/jinja/budget.h"

namespace erne::jinja {

// Bytes up to `end` (and from the end of the run before) share one mark.
struct TrustRun {
  size_t end;
  bool trusted;
};

// Immutable and cheap to copy. Belongs to one rendering (or, for literals, to the compiled
// template: the bytes are shared read-only between threads).
class Text {
 public:
  Text() = default;
  Text(std::string bytes, bool trusted);

  std::string_view view() const {
    return rep_ ? std::string_view(rep_->bytes) : std::string_view();
  }
  size_t size() const { return view().size(); }
  bool empty() const { return size() == 0; }
  // All of it is trusted; true of the empty text.
  bool trusted() const { return !rep_ || rep_->trusted; }

  // Bytes [begin, end), which must lie on character borders.
  Text Sub(Budget& budget, size_t begin, size_t end) const;

  // Calls f(bytes, trusted) for each run of [begin, end).
  template <typename F>
  void ForEachRun(size_t begin, size_t end, F&& f) const;

  // Marked by the filters `safe` and `escape`: markupsafe.Markup, which escapes what is added to it
  // with `+`.
  bool markup() const { return rep_ && rep_->markup; }
  Text WithMarkup(bool markup) const;

 private:
  friend class TextBuilder;
  struct Rep {
    std::string bytes;
    std::vector<TrustRun> runs;  // empty: `trusted` holds for every byte
    bool trusted = true;
    bool markup = false;
  };
  std::shared_ptr<const Rep> rep_;
};

// Collects a text; every byte is paid from the budget.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(budget) {}

  void Append(std::string_view bytes, bool trusted);
  void Append(const Text& text) { AppendSub(text, 0, text.size()); }
  void AppendSub(const Text& text, size_t begin, size_t end);
  void AppendRepeated(const Text& text, int64_t count);

  size_t size() const { return bytes_.size(); }
  Text Build();
  // As Build, but untrusted as a whole when any of it is: for texts such as JSON, where quotes and
  // brackets of the engine stand between the bytes of a request.
  Text BuildUniform();
  std::vector<TextPiece> BuildPieces();

 private:
  Budget& budget_;
  std::string bytes_;
  std::vector<TrustRun> runs_;  // neighbours differ; the last ends at bytes_.size()
};

template <typename F>
void Text::ForEachRun(size_t begin, size_t end, F&& f) const {
  if (begin >= end) return;
  if (rep_->runs.empty()) {
    f(view().substr(begin, end - begin), rep_->trusted);
    return;
  }
  // The first run that ends after `begin`.
  size_t low = 0;
  size_t high = rep_->runs.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (rep_->runs[middle].end <= begin) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; begin < end; ++low) {
    const TrustRun& run = rep_->runs[low];
    const size_t stop = run.end < end ? run.end : end;
    f(view().substr(begin, stop - begin), run.trusted);
    begin = stop;
  }
}

}  // namespace erne::jinja
