// Support for tests that run on every rank of mpirun.
#pragma once

#include "core/comm/communicator.h"

namespace mobius {

/// Returns the communicator of this test program, made by its main().
Communicator& ranks();

}  // namespace mobius
