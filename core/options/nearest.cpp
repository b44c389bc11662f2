#include "core/options/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace mobius {
namespace {

// Returns the first known name that contains `name` or is contained in it. Ignores very short
// names, which are parts of everything.
std::string containing_name(std::string_view name, const std::vector<std::string>& known) {
  const auto lies_in = [](std::string_view part, std::string_view whole) {
    return part.size() >= 3 && whole.find(part) != std::string_view::npos;
  };
  for (const std::string& candidate : known) {
    if (lies_in(name, candidate) || lies_in(candidate, name)) return candidate;
  }
  return "";
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Row i holds the distances from the first i characters of a to every prefix of b. A swap looks
  // two rows back, so three rows are kept.
  std::vector<std::size_t> before, previous(b.size() + 1), row(b.size() + 1);
  std::iota(previous.begin(), previous.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = previous;
    previous = row;
  }
  return previous[b.size()];
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string nearest;
  std::size_t least = std::string::npos;
  for (const std::string& candidate : known) {
    const auto [shortest, longest] = std::minmax({name.size(), candidate.size()});
    const std::size_t most = std::max<std::size_t>(1, longest / 3);
    if (longest - shortest > most) continue;  // spares a text of megabytes the comparison
    const std::size_t distance = edit_distance(name, candidate);
    if (distance <= most && distance < longest && distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest.empty() ? containing_name(name, known) : nearest;
}

std::string suggest_name(std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  if (!nearest.empty()) return fmt::format("did you mean '{}'?", nearest);
  return fmt::format("known: {}", fmt::join(known, ", "));
}

}  // namespace mobius
