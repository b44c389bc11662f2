// Generated text with words, for tests.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "core/rng.h"

namespace mobius {

/// Returns lines of words made of syllables with very different frequencies. The text never
/// changes.
inline std::string some_text(std::size_t lines) {
  constexpr std::array syllables = {"ba", "ku", "til", "on",  "re", "za",  "mör", "pi",
                                    "en", "do", "sha", "wer", "lu", "chi", "ga",  "fos"};
  Rng rng({7, 7});
  std::string text;
  for (std::size_t line = 0; line < lines; ++line) {
    for (int word = 0; word < 8; ++word) {
      Rng letters({11, rng.below(1 + rng.below(200))});
      for (std::uint64_t left = 1 + letters.below(3) + letters.below(2); left > 0; --left)
        text += syllables[letters.below(syllables.size())];
      text += word == 7 ? "." : " ";
    }
    text += "\n";
  }
  return text;
}

}  // namespace mobius
