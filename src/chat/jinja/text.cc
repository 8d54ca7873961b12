#include "chat/jinja/text.h"

#include <utility>

namespace erne::jinja {

Text::Text(std::string bytes, bool trusted) {
  if (bytes.empty()) return;
  auto rep = std::make_shared<Rep>();
  rep->bytes = std::move(bytes);
  rep->trusted = trusted;
  rep_ = std::move(rep);
}

Text Text::Sub(Budget& budget, size_t begin, size_t end) const {
  if (begin == 0 && end == size()) return *this;
  TextBuilder builder(budget);
  builder.AppendSub(*this, begin, end);
  return builder.Build();
}

Text Text::WithMarkup(bool markup) const {
  if (this->markup() == markup) return *this;
  auto rep = rep_ ? std::make_shared<Rep>(*rep_) : std::make_shared<Rep>();
  rep->markup = markup;
  Text text;
  text.rep_ = std::move(rep);
  return text;
}

void TextBuilder::Append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  budget_.StringSize(bytes_.size() + bytes.size());
  budget_.Bytes(bytes.size());
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().end = bytes_.size();
  } else {
    budget_.Steps();  // a run takes about as much memory as a list item
    runs_.push_back({bytes_.size(), trusted});
  }
}

void TextBuilder::AppendSub(const Text& text, size_t begin, size_t end) {
  text.ForEachRun(begin, end, [this](std::string_view run, bool trusted) { Append(run, trusted); });
}

void TextBuilder::AppendRepeated(const Text& text, int64_t count) {
  if (text.empty() || count <= 0) return;
  // Refused before the work and not somewhere on the way.
  if (static_cast<size_t>(count) > budget_.limits().max_output / text.size()) {
    budget_.StringSize(budget_.limits().max_output + 1);
  }
  for (int64_t i = 0; i < count; ++i) Append(text);
}

Text TextBuilder::Build() {
  Text text;
  if (bytes_.empty()) return text;
  auto rep = std::make_shared<Text::Rep>();
  rep->bytes = std::move(bytes_);
  rep->trusted = runs_.size() == 1 && runs_.front().trusted;
  if (runs_.size() > 1) rep->runs = std::move(runs_);
  bytes_.clear();
  runs_.clear();
  text.rep_ = std::move(rep);
  return text;
}

Text TextBuilder::BuildUniform() {
  if (runs_.size() > 1) runs_ = {{bytes_.size(), false}};
  return Build();
}

std::vector<TextPiece> TextBuilder::BuildPieces() {
  std::vector<TextPiece> pieces;
  pieces.reserve(runs_.size());
  size_t begin = 0;
  for (const TrustRun& run : runs_) {
    pieces.push_back({bytes_.substr(begin, run.end - begin), run.trusted});
    begin = run.end;
  }
  bytes_.clear();
  runs_.clear();
  return pieces;
}

}  // namespace erne::jinja
