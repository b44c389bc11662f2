// The program with an additional task.

#include "tests/distributed/uneven_task.h"
#include "train/commands/commands.h"

int main(int argc, char** argv) {
  const mobius::Registries known = mobius::registries_with_uneven_task();
  return static_cast<int>(mobius::run_command_line(argc, argv, known));
}
