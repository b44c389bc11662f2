#include <cstdint>
#include <vector>

#include "tests/gpuless/faults/faults.h"

namespace mobius::ptx {
namespace memory_faults {

using testing::HasSubstr;

TEST(MemoryFault, StorePastTheEnd) {
  KernelRunner kernels = kernels_of("memory");
  const auto out = kernels.allocate<float>(100, "result");
  const std::string fault = kernels.fault_of("store_past_end", {2, 1, 1}, {64, 1, 1}, out, 100);
  EXPECT_THAT(fault, is_fault("store_past_end", "writes 4 bytes"));
  EXPECT_THAT(fault, HasSubstr("0 bytes past the end of 'result' of 400 bytes"));
  EXPECT_THAT(fault, HasSubstr("block (1,0,0), thread (36,0,0)"));
  EXPECT_THAT(fault, HasSubstr("st.global"));
}

TEST(MemoryFault, LoadBeforeTheStart) {
  KernelRunner kernels = kernels_of("memory");
  const auto in = kernels.upload(counting(32), "weights");
  const auto out = kernels.allocate<float>(32);
  const std::string fault = kernels.fault_of("load_before_start", {}, {32, 1, 1}, in, out);
  EXPECT_THAT(fault, is_fault("load_before_start", "4 bytes before the start of 'weights'"));
  EXPECT_THAT(fault, HasSubstr("thread (0,0,0)"));
}

TEST(MemoryFault, Misaligned) {
  KernelRunner kernels = kernels_of("memory");
  const auto in = kernels.upload(counting(40));
  const auto out = kernels.allocate<float>(32);
  EXPECT_THAT(kernels.fault_of("misaligned", {}, {32, 1, 1}, in, out),
              is_fault("misaligned", "misaligned access"));
}

TEST(MemoryFault, UseAfterFree) {
  KernelRunner kernels = kernels_of("memory");
  const auto in = kernels.upload(counting(32), "early");
  const auto out = kernels.allocate<float>(32);
  kernels.memory.free(in);
  kernels.upload(counting(32), "late");
  EXPECT_THAT(kernels.fault_of("copy", {}, {32, 1, 1}, in, out),
              is_fault("copy", "'early' of 128 bytes, which was freed"));
}

TEST(MemoryFault, HostPointer) {
  KernelRunner kernels = kernels_of("memory");
  std::vector<float> host = counting(32);
  const auto out = kernels.allocate<float>(32);
  EXPECT_THAT(kernels.fault_of("copy", {}, {32, 1, 1}, host.data(), out),
              is_fault("copy", "a host address"));
  EXPECT_THAT(kernels.fault_of("copy", {}, {32, 1, 1}, std::uint64_t{0}, out),
              is_fault("copy", "address 0"));
}

TEST(MemoryFault, NeverWritten) {
  KernelRunner kernels = kernels_of("memory");
  const auto in = kernels.allocate<float>(32, "fresh");
  const auto out = kernels.allocate<float>(32);
  kernels.memory.fill(in, 0, 31 * 4);
  const std::string fault = kernels.fault_of("copy", {}, {32, 1, 1}, in, out);
  EXPECT_THAT(fault, is_fault("copy", "that was never written: byte 124 of 'fresh'"));
  EXPECT_THAT(fault, HasSubstr("thread (31,0,0)"));
}

TEST(MemoryFault, OneByteNeverWritten) {
  KernelRunner kernels = kernels_of("memory");
  const auto in = kernels.allocate<unsigned char>(64);
  const auto out = kernels.allocate<int>(32);
  kernels.memory.fill(in, 1, 63);
  EXPECT_THAT(kernels.fault_of("sum_of_bytes", {}, {32, 1, 1}, in, out),
              is_fault("sum_of_bytes", "that was never written"));
}

TEST(MemoryFault, NeverWrittenBytesStaySoInCopies) {
  KernelRunner kernels = kernels_of("memory");
  const auto fresh = kernels.allocate<float>(32);
  const auto in = kernels.upload(counting(32), "overwritten");
  const auto out = kernels.allocate<float>(32);
  kernels.memory.fill(fresh, 0, 64);
  kernels.memory.copy(in, fresh, 128);
  EXPECT_THAT(kernels.fault_of("copy", {}, {32, 1, 1}, in, out),
              HasSubstr("that was never written: byte 64 of 'overwritten'"));
}

TEST(MemoryFault, SharedPastTheEnd) {
  KernelRunner kernels = kernels_of("memory");
  const auto out = kernels.allocate<float>(32);
  kernels.config.dynamic_shared_bytes = 256;
  EXPECT_THAT(kernels.fault_of("shared_past_end", {}, {32, 1, 1}, out, 33),
              is_fault("shared_past_end",
                       "writes 4 bytes of shared memory out of bounds, at offset 256 of 256"));
}

TEST(MemoryFault, SharedNeverWritten) {
  KernelRunner kernels = kernels_of("memory");
  const auto out = kernels.allocate<float>(64);
  EXPECT_THAT(kernels.fault_of("shared_unwritten", {}, {32, 1, 1}, out),
              is_fault("shared_unwritten", "shared memory that was never written, at offset 124"));
  EXPECT_THAT(kernels.fault_of("shared_of_last_block", {2, 1, 1}, {32, 1, 1}, out),
              is_fault("shared_of_last_block", "shared memory that was never written"));
}

TEST(MemoryFault, SharedMisaligned) {
  KernelRunner kernels = kernels_of("memory");
  const auto out = kernels.allocate<float>(32);
  EXPECT_THAT(kernels.fault_of("shared_misaligned", {}, {32, 1, 1}, out, 2),
              is_fault("shared_misaligned", "misaligned access of 4 bytes"));
}

TEST(MemoryFault, LocalMemory) {
  KernelRunner kernels = kernels_of("memory");
  const auto out = kernels.allocate<int>(32);
  const auto past = kernels.upload(std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 5});
  EXPECT_THAT(kernels.fault_of("local_past_end", {}, {8, 1, 1}, past, out),
              is_fault("local_past_end", "local memory"));
  const auto holes = kernels.upload(std::vector<int>{0, 1, 2, 4, 5, 6, 7, 7, 8});
  EXPECT_THAT(kernels.fault_of("local_unwritten", {}, {8, 1, 1}, holes, out),
              is_fault("local_unwritten", "local memory that was never written, at offset 12"));
}

TEST(MemoryFault, Trap) {
  KernelRunner kernels = kernels_of("memory");
  EXPECT_THAT(kernels.fault_of("fails_assertion", {}, {32, 1, 1}, 1),
              is_fault("fails_assertion", "trap"));
}

TEST(MemoryFault, KernelThatNeverEnds) {
  KernelRunner kernels = kernels_of("memory");
  kernels.config.maximum_branches = 10000;
  const auto flag = kernels.upload(std::vector<int>{0});
  EXPECT_THAT(kernels.fault_of("never_ends", {}, {32, 1, 1}, flag),
              is_fault("never_ends", "the kernel does not end"));
}

TEST(LaunchFault, LimitsOfTheDevice) {
  KernelRunner kernels = kernels_of("memory");
  const auto out = kernels.allocate<float>(32);
  const auto fault = [&](Dim3 grid, Dim3 block) {
    return kernels.fault_of("shared_past_end", grid, block, out, 0);
  };
  EXPECT_THAT(fault({1, 1, 1}, {1025, 1, 1}), HasSubstr("1024 threads"));
  EXPECT_THAT(fault({1, 1, 1}, {32, 33, 1}), HasSubstr("1024 threads"));
  EXPECT_THAT(fault({1, 65536, 1}, {32, 1, 1}), HasSubstr("the grid is too large"));
  EXPECT_THAT(fault({0, 1, 1}, {32, 1, 1}), HasSubstr("the grid is empty"));
  kernels.config.dynamic_shared_bytes = 49 * 1024;
  EXPECT_THAT(fault({1, 1, 1}, {32, 1, 1}), HasSubstr("the limit was not raised"));
  kernels.config.dynamic_shared_limit = 256 * 1024;
  kernels.config.dynamic_shared_bytes = 228 * 1024;
  EXPECT_THAT(fault({1, 1, 1}, {32, 1, 1}), HasSubstr("more than 227 KiB"));
  kernels.config.dynamic_shared_bytes = 227 * 1024;
  EXPECT_NO_THROW(kernels.run("shared_past_end", {1, 1, 1}, {32, 1, 1}, out, 0));
}

}  // namespace memory_faults
}  // namespace mobius::ptx
