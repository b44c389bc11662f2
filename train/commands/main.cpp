#include "train/commands/commands.h"

int main(int argc, char** argv) {
  return static_cast<int>(mobius::run_command_line(argc, argv, {}));
}
