// The door to the kernels of a device: its hooks, and families that a device lacks.
#include "core/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/ops.h"
#include "tests/error_of.h"

namespace mobius::backend_test {
namespace {

// Gives the CPU back what the test changes of it.
class KernelDoor : public ::testing::Test {
 protected:
  void TearDown() override {
    cpu_.begin = begin_;
    cpu_.end = end_;
    cpu_.special = special_;
  }

  Backend& cpu_ = backend_for({});

 private:
  void (*begin_)(Device, std::string_view) = cpu_.begin;
  void (*end_)(Device, bool) = cpu_.end;
  SpecialKernels* special_ = cpu_.special;
};

std::vector<std::string> calls;

TEST_F(KernelDoor, HooksSurroundEachCallOfAKernel) {
  calls.clear();
  cpu_.begin = [](Device device, std::string_view family) {
    calls.push_back(fmt::format("begin {} on {}", family, to_string(device)));
  };
  cpu_.end = [](Device, bool kernel_threw) { calls.push_back(kernel_threw ? "threw" : "end"); };
  const Tensor x = Tensor::empty({3}, DType::i64), y = Tensor::empty({3});
  EXPECT_THAT(calls, ::testing::IsEmpty());
  kernels(x, &Backend::copy)->fill(x, 0);
  EXPECT_THAT(calls, ::testing::ElementsAre("begin copy on cpu", "end"));
  calls.clear();
  EXPECT_THROW(div(x, x), Error);  // by zero, which the kernel finds
  EXPECT_THAT(calls, ::testing::ElementsAre("begin elementwise on cpu", "threw"));
  calls.clear();
  (void)y.to_vector<float>();
  EXPECT_THAT(calls, ::testing::ElementsAre("begin copy on cpu", "end"));
}

TEST_F(KernelDoor, AnErrorOfTheEndHookReachesTheCaller) {
  cpu_.end = [](Device, bool) { throw Error("the launch failed"); };
  const Tensor x = Tensor::empty({3});
  EXPECT_EQ(error_of([&] { kernels(x, &Backend::copy)->fill(x, 0); }), "the launch failed");
}

TEST_F(KernelDoor, AFamilyThatADeviceLacksIsNamed) {
  cpu_.special = nullptr;
  EXPECT_EQ(error_of([] { log_hyp2f1(1, 1, 2, Tensor::zeros({1})); }),
            "device cpu: it has no kernels of the family 'special'");
}

}  // namespace
}  // namespace mobius::backend_test
