#include <gtest/gtest.h>

#include "tests/distributed/ranks.h"

namespace mobius {

namespace {

std::unique_ptr<Communicator>& communicator() {
  static std::unique_ptr<Communicator> made;
  return made;
}

}  // namespace

Communicator& ranks() { return *communicator(); }

}  // namespace mobius

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  mobius::communicator() =
      mobius::make_communicator(mobius::launch_of(mobius::process_environment()));
  const int result = RUN_ALL_TESTS();
  mobius::communicator().reset();
  return result;
}
