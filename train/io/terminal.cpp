#include "train/io/terminal.h"

#include <sys/ioctl.h>

namespace mobius {

TerminalSize terminal_size(std::FILE* out) {
  TerminalSize size;
  winsize said{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &said) != 0) return size;
  if (said.ws_col > 0) size.columns = said.ws_col;
  if (said.ws_row > 0) size.rows = said.ws_row;
  return size;
}

}  // namespace mobius
