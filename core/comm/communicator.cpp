#include "core/comm/communicator.h"

#include <array>

namespace mobius {

namespace {

class Complete final : public Pending {
 public:
  void advance() override {}
  void wait() override {}
};

}  // namespace

bool Communicator::any(bool value) {
  std::array<double, 1> count = {value ? 1.0 : 0.0};
  sum(count);
  return count[0] > 0;
}

std::unique_ptr<Pending> OneRank::start(Tensor, Steps) { return std::make_unique<Complete>(); }

std::unique_ptr<Communicator> make_communicator(const Launch& launch, Device device) {
  if (launch.size == 1) return std::make_unique<OneRank>(device);
  return make_mpi_communicator(launch, device);
}

}  // namespace mobius
