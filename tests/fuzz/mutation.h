// Mutates valid inputs with some knowledge of their format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace mobius {

/// The random numbers of one input. They depend only on the seed and the number of the input.
class FuzzRandom {
 public:
  FuzzRandom(std::uint64_t seed, std::uint64_t index) : numbers_(seed * 1'000'003 + index) {}

  /// Returns a number below n, which is at least 1.
  std::size_t below(std::size_t n) { return numbers_() % n; }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }
  std::uint64_t bits() { return numbers_(); }
  template <typename T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }

 private:
  std::mt19937_64 numbers_;
};

/// Applies one to eight changes to bytes from `begin` on: bit flips, integers at and near their
/// limits, cuts, copies of a part, zeros.
std::string mutate_bytes(std::string bytes, std::size_t begin, FuzzRandom& random);

/// Applies one to eight changes to a text: those of mutate_bytes, insertions of `words` and of
/// parts of `others`, and decimal numbers replaced by ones at their limits.
std::string mutate_text(std::string text, const std::vector<std::string>& words,
                        const std::vector<std::string>& others, FuzzRandom& random);

}  // namespace mobius
