#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace erne {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop)
    : include_stop_(include_stop) {
  for (std::string& text : stops) {
    if (text.empty()) continue;
    Stop stop;
    stop.text = std::move(text);
    stop.fallback.assign(stop.text.size() + 1, 0);
    for (size_t n = 1; n < stop.text.size(); ++n) {
      uint32_t length = stop.fallback[n];
      while (length > 0 && stop.text[length] != stop.text[n]) length = stop.fallback[length];
      stop.fallback[n + 1] = stop.text[length] == stop.text[n] ? length + 1 : 0;
    }
    stops_.push_back(std::move(stop));
  }
}

bool StopMatcher::Advance(Stop& stop, char byte) {
  while (stop.seen > 0 && stop.text[stop.seen] != byte) stop.seen = stop.fallback[stop.seen];
  if (stop.text[stop.seen] == byte) ++stop.seen;
  return stop.seen == stop.text.size();
}

std::string StopMatcher::Add(std::string_view text) {
  if (matched_) return "";
  for (size_t i = 0; i < text.size(); ++i) {
    const Stop* complete = nullptr;  // the one that begins earliest, that is the longest
    for (Stop& stop : stops_) {
      if (!Advance(stop, text[i])) continue;
      if (complete == nullptr || stop.text.size() > complete->text.size()) complete = &stop;
    }
    if (complete == nullptr) continue;
    matched_ = complete->text;
    std::string released = std::move(held_);
    held_.clear();
    released.append(text.substr(0, i + 1));
    if (!include_stop_) released.resize(released.size() - matched_->size());
    return released;
  }
  held_.append(text);
  size_t keep = 0;
  for (const Stop& stop : stops_) keep = std::max<size_t>(keep, stop.seen);
  std::string released = held_.substr(0, held_.size() - keep);
  held_.erase(0, released.size());
  return released;
}

std::string StopMatcher::Flush() {
  if (matched_) return "";
  return std::exchange(held_, {});
}

}  // namespace erne
