// For tests that every rank of mpirun runs alike.
#pragma once

#include "core/comm/communicator.h"

namespace mobius {

/// The communicator of this test program, made by its main().
Communicator& ranks();

}  // namespace mobius
