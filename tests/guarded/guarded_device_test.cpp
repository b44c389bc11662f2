// The guarded device catches what it is there to catch.
#include "tests/guarded/guarded_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ops.h"
#include "tests/error_of.h"

namespace mobius::guarded_device_test {
namespace {

using ::testing::ElementsAre;
using testing::guarded_counts;
using testing::guarded_device;
using ::testing::HasSubstr;
using testing::other_guarded_device;

const std::vector<float> values{1, 2, 3, 4};

float read(const float* address) { return *static_cast<const volatile float*>(address); }

TEST(GuardedDevice, ComputesAsTheCpuDoes) {
  const Tensor x = Tensor::from(values, {2, 2}, guarded_device);
  const Tensor product = matmul(x, add(x, x));
  EXPECT_EQ(product.device(), guarded_device);
  EXPECT_THAT(product.to_vector<float>(), ElementsAre(14, 20, 30, 44));
}

TEST(GuardedDeviceDeathTest, HostReadsOfDeviceMemoryCrashWithAName) {
  const Tensor x = Tensor::from(values, {4}, guarded_device);
  const Tensor y = scale(x, 2);
  EXPECT_DEATH(read(y.data<float>()),
               "host dereferenced device memory at 0x[0-9a-f]+, in a block of 16 bytes on test; "
               "last kernel: elementwise");
  EXPECT_DEATH(*x.data<float>() = 5, "host dereferenced device memory");
}

TEST(GuardedDeviceDeathTest, FreedMemoryIsOfNoBlock) {
  const float* freed = Tensor::from(values, {4}, guarded_device).data<float>();
  EXPECT_DEATH(read(freed), "host dereferenced device memory at .*, in a block of 0 bytes");
}

TEST(GuardedDeviceDeathTest, KernelsDoNotReachTheMemoryOfTheOtherDevice) {
  const Tensor x = Tensor::from(values, {4}, guarded_device);
  const Tensor foreign = Tensor::from(values, {4}, other_guarded_device);
  EXPECT_DEATH(kernels(x, &Backend::copy)->copy(foreign, x),
               "host dereferenced device memory at .* on test:1");
}

TEST(GuardedDeviceDeathTest, MemoryIsClosedAgainAfterAKernelThatThrew) {
  const Tensor x = Tensor::from(values, {4}, guarded_device);
  EXPECT_THAT(error_of([&] { copy_to_host(x, x.raw()); }), HasSubstr("is not host memory"));
  EXPECT_DEATH(read(x.data<float>()), "host dereferenced device memory");
}

TEST(GuardedDevice, CountsKernelsAndCopies) {
  testing::reset_guarded_counts();
  testing::reset_guarded_counts(other_guarded_device);
  const Tensor x = Tensor::from(values, {4}, guarded_device);
  EXPECT_EQ(guarded_counts().copies_from_host, 1);
  const Tensor y = scale(x, 2);
  EXPECT_EQ(guarded_counts().kernels, 2);
  EXPECT_EQ(guarded_counts().copies_to_host, 0);
  EXPECT_EQ(y.slice(0, 3, 4).item(), 8);
  EXPECT_EQ(guarded_counts().copies_to_host, 1);
  EXPECT_EQ(guarded_counts(other_guarded_device).kernels, 0);
}

TEST(GuardedDevice, HasAMemoryCounterOfItsOwn) {
  const std::size_t before = allocator_for(guarded_device).stats().current;
  const std::size_t on_host = allocator_for(Device{}).stats().current;
  const Tensor x = Tensor::empty({1024}, DType::f32, guarded_device);
  EXPECT_EQ(allocator_for(guarded_device).stats().current, before + 4096);
  EXPECT_EQ(allocator_for(Device{}).stats().current, on_host);
}

TEST(GuardedDevice, CopiesBetweenDevicesConvertStretchAndKeepViews) {
  const Tensor row = Tensor::from(std::vector<double>{1, 2, 3}, {3});
  for (const Device from : {Device{}, guarded_device, other_guarded_device}) {
    for (const Device to : {Device{}, guarded_device, other_guarded_device}) {
      Tensor out = Tensor::zeros({3, 4}, DType::f32, to);
      out.transpose(0, 1).slice(0, 1, 3).copy_from(row.to(from));
      EXPECT_THAT(out.to_vector<float>(), ElementsAre(0, 1, 1, 0, 0, 2, 2, 0, 0, 3, 3, 0));
      EXPECT_EQ(row.to(from).to(to).device(), to);
    }
  }
}

TEST(GuardedDevice, MovesTensorsThatShareMemoryTogether) {
  Tensor x = Tensor::from(values, {2, 2});
  const Tensor column = x.slice(1, 1, 2);
  x.move_to(guarded_device);
  EXPECT_EQ(column.device(), guarded_device);
  EXPECT_THAT(column.to_vector<float>(), ElementsAre(2, 4));
  x.fill(7);
  EXPECT_THAT(column.to_vector<float>(), ElementsAre(7, 7));
}

TEST(GuardedDevice, ThereAreTwo) {
  EXPECT_THAT(error_of([] {
                Tensor::empty({1}, DType::f32, {DeviceType::test, 2});
              }),
              HasSubstr("device test:2: there is no such device"));
}

}  // namespace
}  // namespace mobius::guarded_device_test
