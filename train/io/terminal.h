// The terminal that output goes to.
#pragma once

#include <cstdio>

namespace mobius {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

/// That of the terminal behind `out`; 80 x 24 where it is none, or does not say.
TerminalSize terminal_size(std::FILE* out);

}  // namespace mobius
