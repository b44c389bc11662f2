// The tasks that come with Mobius, by name.
#pragma once

#include "core/options/registry.h"
#include "data/task.h"

namespace mobius {

/// "mqar", "recall" and "lm". A program adds its own to the registry it passes on.
Registry<TaskOptions> builtin_tasks();

}  // namespace mobius
