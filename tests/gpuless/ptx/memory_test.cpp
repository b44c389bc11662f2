#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpuless/ptx/device_memory.h"
#include "tests/gpuless/ptx/fault.h"
#include "tests/gpuless/ptx/module.h"
#include "tests/gpuless/ptx/text.h"

namespace mobius::ptx {
namespace memory {

using testing::HasSubstr;

template <typename Function>
std::string fault_of(Function function) {
  try {
    function();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "no fault";
}

TEST(DeviceMemory, CopiesAndFills) {
  DeviceMemory memory;
  const std::vector<int> values = {1, 2, 3, 4};
  const auto a = memory.allocate(16, "a");
  const auto b = memory.allocate(16, "b");
  EXPECT_NE(a & DeviceMemory::kDeviceBit, 0u);
  EXPECT_EQ(a % 256, 0u);
  memory.copy_from_host(a, values.data(), 16);
  memory.copy(b, a, 16);
  memory.fill(b + 4, 0xFF, 4);
  std::vector<int> result(4);
  memory.copy_to_host(result.data(), b, 16);
  EXPECT_EQ(result, (std::vector<int>{1, -1, 3, 4}));
  memory.copy(a + 4, a, 8);
  memory.copy_to_host(result.data(), a, 16);
  EXPECT_EQ(result, (std::vector<int>{1, 1, 2, 4}));
}

TEST(DeviceMemory, ChecksRanges) {
  DeviceMemory memory;
  char buffer[32] = {};
  const auto a = memory.allocate(16, "weights");
  EXPECT_THAT(fault_of([&] { memory.copy_from_host(a, buffer, 17); }),
              HasSubstr("17 bytes at byte 0 of 'weights' of 16 bytes reach past its end"));
  EXPECT_THAT(fault_of([&] { memory.fill(a - 1, 0, 1); }),
              HasSubstr("1 bytes before the start of 'weights'"));
  EXPECT_THAT(fault_of([&] { memory.copy_to_host(buffer, a + 20, 1); }),
              HasSubstr("4 bytes past the end of 'weights'"));
  EXPECT_THAT(fault_of([&] { memory.copy(a, reinterpret_cast<std::uint64_t>(buffer), 4); }),
              HasSubstr("a host address"));
  EXPECT_THAT(fault_of([&] { memory.free(a + 4); }), HasSubstr("no live allocation starts"));
  memory.free(a);
  EXPECT_THAT(fault_of([&] { memory.fill(a, 0, 1); }),
              HasSubstr("'weights' of 16 bytes, which was freed"));
  EXPECT_THAT(fault_of([&] { memory.free(a); }), HasSubstr("which was freed"));
}

TEST(DeviceMemory, KnowsWhatWasWritten) {
  DeviceMemory memory;
  const auto a = memory.allocate(10, "a");
  memory.fill(a, 1, 7);
  EXPECT_NO_THROW(memory.readable(a, 7, "product"));
  EXPECT_THAT(fault_of([&] { memory.readable(a, 8, "product"); }),
              HasSubstr("product: reads bytes that were never written"));
  EXPECT_NO_THROW(memory.writable(a + 7, 3, "product"));
  EXPECT_NO_THROW(memory.readable(a, 10, "product"));
  const auto b = memory.allocate(10, "b");
  std::uint8_t byte = 0;
  memory.copy_to_host(&byte, b, 1);
  EXPECT_EQ(byte, 0xCB);
}

TEST(DeviceMemory, CountsAndFinds) {
  DeviceMemory memory;
  const auto a = memory.allocate(100, "a");
  const auto empty = memory.allocate(0);
  EXPECT_NE(a, empty);
  EXPECT_EQ(memory.bytes_in_use(), 100u);
  EXPECT_EQ(memory.live_allocations(), 2u);
  EXPECT_TRUE(memory.is_live(a + 99));
  EXPECT_FALSE(memory.is_live(a + 100));
  EXPECT_EQ(memory.range_of(a + 50).address, a);
  EXPECT_EQ(memory.range_of(a + 50).bytes, 100u);
  memory.free(a);
  memory.free(0);
  EXPECT_EQ(memory.bytes_in_use(), 0u);
  EXPECT_THROW(memory.allocate(DeviceMemory::kMaximumBytes + 1), std::bad_alloc);
}

TEST(DeviceMemory, ServesManyThreads) {
  DeviceMemory memory;
  const auto work = [&] {
    for (int i = 0; i < 2000; ++i) {
      const auto address = memory.allocate(64);
      memory.fill(address, 1, 64);
      memory.free(address);
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(memory.live_allocations(), 0u);
}

constexpr char kText[] = R"(
.version 9.0
.target sm_80
.address_size 64
	// .globl first
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b) ;
.global .align 4 .b8 table[8] = {1, 0, 0, 0, 2, 0, 0, 0};
.visible .const .align 8 .u64 pointer = generic(table)+4;
.visible .entry first(
	.param .u8 a,
	.param .u64 .ptr .global .align 16 b,
	.param .align 4 .b8 c[12]
)
.maxntid 128, 2, 1
.minnctapersm 2
{
	.shared .align 16 .b8 tile[40];
	.reg .b32 %r<5>;
	{ // scope
	.reg .b32 %r1;
	mov.u32 	%r1, 7;
	}
	ret;
}
.entry broken() { frobnicate.u32 %r1; }
)";

TEST(Module, ReadsWhatKernelsTake) {
  DeviceMemory memory;
  Module module(kText, memory);
  EXPECT_EQ(module.kernel_names(), (std::vector<std::string>{"broken", "first"}));
  EXPECT_FALSE(module.has_kernel("vprintf"));
  EXPECT_EQ(memory.live_allocations(), 0u);
  const Kernel& kernel = module.kernel("first");
  ASSERT_EQ(kernel.parameters.size(), 3u);
  EXPECT_EQ(kernel.parameters[1].offset, 8u);
  EXPECT_EQ(kernel.parameters[2].bytes, 12u);
  EXPECT_EQ(kernel.parameter_bytes, 28u);
  EXPECT_EQ(kernel.static_shared_bytes, 40u);
  EXPECT_EQ(kernel.max_threads, 256u);
  EXPECT_EQ(&module.kernel("first"), &kernel);
}

TEST(Module, PlacesVariablesThatAreAskedFor) {
  DeviceMemory memory;
  Module module(kText, memory);
  std::uint64_t pointer = 0;
  memory.copy_to_host(&pointer, module.symbol("pointer").address, 8);
  EXPECT_EQ(pointer, module.symbol("table").address + 4);
  int value = 0;
  memory.copy_to_host(&value, pointer, 4);
  EXPECT_EQ(value, 2);
}

TEST(Module, QuotesWhatItDoesNotKnow) {
  DeviceMemory memory;
  Module module(kText, memory);
  EXPECT_THAT(fault_of([&] { module.kernel("broken"); }),
              HasSubstr("kernel broken: unknown instruction: frobnicate.u32 %r1"));
  EXPECT_THAT(fault_of([&] { module.kernel("absent"); }), HasSubstr("no kernel absent"));
  EXPECT_THAT(fault_of([&] { Module("nonsense here", memory); }),
              HasSubstr("unknown PTX at module scope: nonsense here"));
}

TEST(Text, SplitsStatements) {
  StatementReader reader(
      "$L_1: @!%p1 ld.global.v2.f32 \t{%f1, %f2}, [%rd1+8]; // a comment\n\t.loc 1 2 3\n bra.uni "
      "$L_1;");
  Statement statement;
  ASSERT_TRUE(reader.next(statement));
  EXPECT_EQ(statement.kind, Statement::Kind::label);
  EXPECT_EQ(statement.text, "$L_1");
  ASSERT_TRUE(reader.next(statement));
  EXPECT_EQ(statement.guard, "!%p1");
  EXPECT_EQ(statement.opcode, (std::vector<std::string_view>{"ld", "global", "v2", "f32"}));
  EXPECT_EQ(statement.operands, (std::vector<std::string_view>{"{%f1, %f2}", "[%rd1+8]"}));
  ASSERT_TRUE(reader.next(statement));
  EXPECT_EQ(statement.opcode[0], "bra");
  EXPECT_FALSE(reader.next(statement));
}

}  // namespace memory
}  // namespace mobius::ptx
