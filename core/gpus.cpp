#include "core/gpus.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace mobius {
namespace {

// The number of "sm_90": 90. 0 if there is none. A letter behind it ("sm_90a") stands for code that
// runs on this GPU alone.
int number_of(std::string_view target) {
  const std::size_t underscore = target.find('_');
  if (underscore == std::string_view::npos) return 0;
  int number = 0;
  std::from_chars(target.data() + underscore + 1, target.data() + target.size(), number);
  return number;
}

bool runs_target(std::string_view target, int capability) {
  const int number = number_of(target);
  if (number == 0 || number > capability) return false;
  return target.starts_with("compute_") || number / 10 == capability / 10;
}

}  // namespace

std::vector<Gpu> GpuReport::usable() const {
  std::vector<Gpu> found;
  std::copy_if(gpus.begin(), gpus.end(), std::back_inserter(found),
               [](const Gpu& gpu) { return gpu.has_code; });
  return found;
}

bool runs_code(std::string_view targets, int major, int minor) {
  while (!targets.empty()) {
    const std::size_t comma = std::min(targets.find(','), targets.size());
    if (runs_target(targets.substr(0, comma), 10 * major + minor)) return true;
    targets.remove_prefix(std::min(comma + 1, targets.size()));
  }
  return false;
}

}  // namespace mobius
