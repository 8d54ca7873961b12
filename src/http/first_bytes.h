// What the first bytes of a request say about whose it is: the thread that answers the urgent ones,
// or the others.
#pragma once

#include <string_view>

namespace erne {

enum class FirstBytes {
  kTooFew,    // either is possible
  kUrgent,    // GET or HEAD of `urgent_path`, or of something below it
  kOrdinary,  // anything else
};

// `bytes` is what a connection has received since its last request. An empty `urgent_path`: nothing
// is urgent.
FirstBytes LookAtFirstBytes(std::string_view bytes, std::string_view urgent_path);

}  // namespace erne
