// Products of bf16 whose sizes leave something over beside the tiles of AMX: each in a process that
// an illegal instruction may end, on whatever processor this is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/cpu/gemm/gemm.h"
#include "core/ops.h"
#include "tests/device.h"

namespace mobius::bf16_shapes_test {
namespace {

struct Layout {
  bool is_a_transposed, is_b_transposed;
};

std::array<char, 128> current{};  // the product that is being computed, in words

[[noreturn]] void name_current(int) {
  (void)!::write(STDERR_FILENO, current.data(), std::strlen(current.data()));
  ::_exit(1);
}

std::int64_t cyclic(std::int64_t i, std::int64_t period) { return i % period - period / 2; }

// [rows, cols] of the numbers `value(i, j)`, in memory as [cols, rows] where transposed.
template <class Value>
Tensor matrix(std::int64_t rows, std::int64_t cols, bool is_transposed, Value&& value) {
  std::vector<float> values;
  const std::int64_t outer = is_transposed ? cols : rows, inner = is_transposed ? rows : cols;
  for (std::int64_t i = 0; i < outer; ++i)
    for (std::int64_t j = 0; j < inner; ++j)
      values.push_back(static_cast<float>(is_transposed ? value(j, i) : value(i, j)));
  const Tensor dense = placed::from(values, {outer, inner}).to(DType::bf16);
  return is_transposed ? dense.transpose(0, 1) : dense;
}

// a_ip = x_i s_p and b_pj = t_p y_j have the product x_i y_j sum_p s_p t_p, of small whole numbers:
// exact, and wrong where one p is left out or meets another.
bool is_right(const GemmShape& s, const Layout& layout) {
  const auto left = [](std::int64_t p) { return 1 + p % 3; };
  const auto right = [](std::int64_t p) { return cyclic(p * p + 1, 5); };
  const Tensor a = matrix(s.m, s.k, layout.is_a_transposed,
                          [&](std::int64_t i, std::int64_t p) { return cyclic(i, 7) * left(p); });
  const Tensor b = matrix(s.k, s.n, layout.is_b_transposed, [&](std::int64_t p, std::int64_t j) {
    return right(p) * cyclic(j + 1, 7);
  });
  std::int64_t sum = 0;
  for (std::int64_t p = 0; p < s.k; ++p) sum += left(p) * right(p);
  const std::vector<float> got = matmul(a, b).to_vector<float>();
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t j = 0; j < s.n; ++j)
      if (got[static_cast<std::size_t>(i * s.n + j)] !=
          static_cast<float>(cyclic(i, 7) * cyclic(j + 1, 7) * sum))
        return false;
  return true;
}

void require_right(const GemmShape& s, const Layout& layout) {
  std::snprintf(current.data(), current.size(), "the product m %d, n %d, k %d, layout %d%d\n",
                static_cast<int>(s.m), static_cast<int>(s.n), static_cast<int>(s.k),
                layout.is_a_transposed, layout.is_b_transposed);
  if (!is_right(s, layout)) name_current(0);
}

[[noreturn]] void multiply_all_shapes() {
  std::signal(SIGILL, name_current);
  const std::vector<Layout> layouts = {{false, false}, {false, true}, {true, false}, {true, true}};
  // Where oneDNN 2.6 and 2.7 were seen to fail: a text of 63 characters, or d_model 63.
  for (std::int64_t m = 65; m <= 80; ++m)
    for (std::int64_t n = 1; n < 64; ++n)
      for (const Layout& layout : {layouts[0], layouts[1]}) require_right({m, n, 63}, layout);
  for (const std::int64_t m : {1, 15, 63, 65, 72, 80, 81, 129, 144})
    for (const std::int64_t n : {1, 2, 7, 15, 16, 17, 33, 47, 63, 65})
      for (const std::int64_t k : {1, 2, 31, 32, 33, 61, 62, 63, 64, 65, 95, 127})
        for (const Layout& layout : layouts) require_right({m, n, k}, layout);
  std::exit(0);
}

TEST(Bf16ShapesDeathTest, EveryShapeIsComputedAndRight) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // by fork and exec: there are threads already
  EXPECT_EXIT(multiply_all_shapes(), ::testing::ExitedWithCode(0), "");
}

// What AMX gets of it, on any processor.
TEST(EvenProduct, HasTheSumsOfTheProductAndAnEvenK) {
  MOBIUS_CPU_ONLY();
  for (const std::int64_t k : {1, 2, 5, 6, 63}) {
    const std::int64_t m = 3, n = 4;
    const Tensor a =
        placed::random_normal({k, m}, 0, 1, {1, 1}).to(DType::bf16);  // a is transposed
    const Tensor b = placed::random_normal({k, 2 * n}, 0, 1, {1, 2}).to(DType::bf16).slice(1, 0, n);
    const EvenProduct even({m, n, k}, {a.data<BFloat16>(), 1, m}, {b.data<BFloat16>(), 2 * n, 1});
    EXPECT_EQ(even.shape.k, k + k % 2);
    EXPECT_EQ(even.shape.m, m);
    EXPECT_EQ(even.shape.n, n);
    const std::vector<float> want =
        matmul(a.to(DType::f64).transpose(0, 1), b.to(DType::f64)).to_vector<float>();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < even.shape.k; ++p)
          sum += static_cast<double>(static_cast<float>(*even.left().from(i, p).data)) *
                 static_cast<double>(static_cast<float>(*even.right().from(p, j).data));
        EXPECT_FLOAT_EQ(static_cast<float>(sum), want[static_cast<std::size_t>(i * n + j)]);
      }
  }
}

}  // namespace
}  // namespace mobius::bf16_shapes_test
