#include "load/options.h"

namespace erne::load {

const char* ModeName(Mode mode) {
  switch (mode) {
    case Mode::kClosed:
      return "closed";
    case Mode::kFlood:
      return "flood";
    case Mode::kSteady:
      return "steady";
    case Mode::kVanish:
      return "vanish";
    case Mode::kPrefix:
      return "prefix";
  }
  return "";
}

}  // namespace erne::load
