// Inputs made from good ones by damage that knows a little of what it damages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace mobius {

/// Random numbers of one input: they depend on the seed and the number of the input alone.
class FuzzRandom {
 public:
  FuzzRandom(std::uint64_t seed, std::uint64_t index) : numbers_(seed * 1'000'003 + index) {}

  /// Below n, which is at least 1.
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

/// One to eight changes of bytes from `begin` on: bits, integers at and beside their limits, cuts,
/// copies of a part, zeros.
std::string mutate_bytes(std::string bytes, std::size_t begin, FuzzRandom& random);

/// One to eight changes of a text: as above, and words of `words` put in, parts of `others` put in,
/// numbers in digits replaced by ones at their limits.
std::string mutate_text(std::string text, const std::vector<std::string>& words,
                        const std::vector<std::string>& others, FuzzRandom& random);

}  // namespace mobius
