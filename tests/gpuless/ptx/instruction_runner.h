#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/gpuless/ptx/kernel_runner.h"

namespace mobius::ptx {

/// Runs PTX that makes d of a, b and c in every lane, such as "add.s32 d, a, b;". Registers are as
/// wide as the types.
template <typename D, typename A, typename B = A, typename C = A>
std::vector<D> run_instruction(const std::string& code, const std::vector<A>& a,
                               const std::vector<B>& b, const std::vector<C>& c) {
  const auto width = [](std::size_t bytes) { return ".b" + std::to_string(8 * bytes); };
  std::string text =
      ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry test(.param .u64 pd, .param "
      ".u64 pa, "
      ".param .u64 pb, .param .u64 pc, .param .u32 n)\n{\n"
      ".reg .pred p, q, outside;\n.reg .b64 address, offset;\n.reg .b32 i, block, count;\n";
  const std::pair<const char*, std::size_t> operands[] = {
      {"a", sizeof(A)}, {"b", sizeof(B)}, {"c", sizeof(C)}, {"d", sizeof(D)}};
  for (const auto& [name, bytes] : operands) text += ".reg " + width(bytes) + " " + name + ";\n";
  text +=
      "mov.u32 i, %tid.x;\nmov.u32 block, %ctaid.x;\nmad.lo.u32 i, block, 32, i;\nld.param.u32 "
      "count, [n];\n"
      "setp.ge.u32 outside, i, count;\n@outside bra END;\n";
  for (const auto& [name, bytes] : operands) {
    if (name[0] == 'd') continue;
    text += std::string("ld.param.u64 address, [p") + name + "];\nmul.wide.u32 offset, i, " +
            std::to_string(bytes) + ";\nadd.u64 address, address, offset;\nld.global" +
            width(bytes) + " " + name + ", [address];\n";
  }
  text += code + "\nld.param.u64 address, [pd];\nmul.wide.u32 offset, i, " +
          std::to_string(sizeof(D)) + ";\nadd.u64 address, address, offset;\nst.global" +
          width(sizeof(D)) + " [address], d;\nEND:\nret;\n}\n";
  KernelRunner runner = KernelRunner::of_text(text);
  const auto pa = runner.upload(a);
  const auto pb = runner.upload(b);
  const auto pc = runner.upload(c);
  const auto pd = runner.allocate<D>(a.size());
  const auto blocks = static_cast<std::uint32_t>((a.size() + 31) / 32);
  runner.run("test", {blocks, 1, 1}, {32, 1, 1}, pd, pa, pb, pc,
             static_cast<std::uint32_t>(a.size()));
  return runner.download<D>(pd, a.size());
}

/// Values of a type with all edges, in an order that the seed chooses; operands of different seeds
/// meet in all ways.
template <typename T>
std::vector<T> samples(unsigned seed, std::size_t count = 1000) {
  std::vector<T> edges;
  if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    for (const T value : {T{0}, T{1}, T{0.5}, T{1.5}, T{2.5}, T{1e9}, Limits::min(), Limits::max(),
                          Limits::denorm_min(), Limits::infinity(), T{3} + Limits::epsilon()}) {
      edges.push_back(value);
      edges.push_back(-value);
    }
    edges.push_back(Limits::quiet_NaN());
  } else {
    for (int bit = 0; bit < static_cast<int>(8 * sizeof(T)); ++bit) {
      edges.push_back(static_cast<T>(std::uint64_t{1} << bit));
      edges.push_back(static_cast<T>((std::uint64_t{1} << bit) - 1));
      edges.push_back(static_cast<T>(~(std::uint64_t{1} << bit)));
    }
  }
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& value : values) {
    if (random() % 2 == 0) {
      value = edges[random() % edges.size()];
    } else if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(
          std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())) / 0x1p63,
                     static_cast<int>(random() % 20) - 6));
    } else {
      value = static_cast<T>(random() >> random() % 64);
    }
  }
  return values;
}

template <typename T>
bool is_same(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
    return x == y && std::signbit(x) == std::signbit(y);
  } else {
    return x == y;
  }
}

/// Expects that an instruction agrees with the host in every lane.
template <typename D, typename A, typename Host>
void expect_unary(const std::string& code, Host host) {
  const auto a = samples<A>(1);
  const auto d = run_instruction<D, A>(code, a, a, a);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(is_same<D>(d[i], host(a[i])))
        << code << " of " << +a[i] << " gave " << +d[i] << ", not " << +D(host(a[i]));
  }
}

template <typename D, typename A, typename B = A, typename Host>
void expect_binary(const std::string& code, Host host) {
  const auto a = samples<A>(1);
  const auto b = samples<B>(2);
  const auto d = run_instruction<D, A, B>(code, a, b, a);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(is_same<D>(d[i], host(a[i], b[i])))
        << code << " of " << +a[i] << " and " << +b[i] << " gave " << +d[i] << ", not "
        << +D(host(a[i], b[i]));
  }
}

template <typename D, typename A, typename B = A, typename C = A, typename Host>
void expect_ternary(const std::string& code, Host host) {
  const auto a = samples<A>(1);
  const auto b = samples<B>(2);
  const auto c = samples<C>(3);
  const auto d = run_instruction<D, A, B, C>(code, a, b, c);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(is_same<D>(d[i], host(a[i], b[i], c[i])))
        << code << " of " << +a[i] << ", " << +b[i] << " and " << +c[i] << " gave " << +d[i]
        << ", not " << +D(host(a[i], b[i], c[i]));
  }
}

}  // namespace mobius::ptx
