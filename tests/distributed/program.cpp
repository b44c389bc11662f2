// The program with an additional task, and with a study of its own alone.

#include "tests/distributed/uneven_task.h"
#include "tests/train/counting_study.h"
#include "train/commands/commands.h"

int main(int argc, char** argv) {
  mobius::Registries known = mobius::registries_with_uneven_task();
  known.studies = mobius::registry_with_counting_study();
  return static_cast<int>(mobius::run_command_line(argc, argv, known));
}
