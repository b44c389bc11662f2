// The built-in tasks, by name.
#pragma once

#include "core/options/registry.h"
#include "data/task.h"

namespace mobius {

/// Returns "mqar", "recall" and "lm". A program can add tasks to the registry.
Registry<TaskOptions> builtin_tasks();

}  // namespace mobius
