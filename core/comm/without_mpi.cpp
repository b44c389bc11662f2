// Replaces mpi_communicator.cpp if MPI is not installed.

#include "core/comm/communicator.h"
#include "core/error.h"

namespace mobius {

std::unique_ptr<Communicator> make_mpi_communicator(const Launch& launch, Device) {
  throw ConfigError("launch: rank {} of {}, but this program was built without MPI", launch.rank,
                    launch.size);
}

}  // namespace mobius
