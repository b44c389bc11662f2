#include "train/commands/commands.h"

int main(int argc, char** argv) { return mobius::run_command_line(argc, argv, {}); }
