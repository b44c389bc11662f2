// Whole numbers in JSON that others may have written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace mobius {

/// Whether each of the keys that the object has holds a whole number from 0 to 2^53.
template <typename Json>
bool holds_counts(const Json& object, std::initializer_list<const char*> keys) {
  constexpr auto most = std::uint64_t{1} << 53;
  return std::all_of(keys.begin(), keys.end(), [&object](const char* key) {
    const auto found = object.find(key);
    return found == object.end() ||
           (found->is_number_unsigned() && found->template get<std::uint64_t>() <= most);
  });
}

}  // namespace mobius
