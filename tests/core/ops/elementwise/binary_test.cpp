// Arithmetic, comparison and selection over every way of broadcasting, and the in-place forms.
#include <functional>
#include <limits>
#include <type_traits>

#include "core/error.h"
#include "tests/core/ops/kernel_testing.h"
#include "tests/error_of.h"

namespace mobius::binary_test {
namespace {

using testing::counting;
using Values = std::vector<double>;

struct Shapes {
  Shape a, b, out;
};

// Dense, scalar, row, column, both stretched, and ragged sizes of each.
std::vector<Shapes> shape_cases() {
  std::vector<Shapes> cases{{{}, {}, {}},
                            {{2, 3, 4}, {3, 1}, {2, 3, 4}},
                            {{2, 1, 5}, {3, 1}, {2, 3, 5}},
                            {{4, 1, 3, 1}, {1, 6, 1, 7}, {4, 6, 3, 7}}};
  for (const std::int64_t n : testing::ragged_sizes) {
    cases.push_back({{n}, {n}, {n}});
    cases.push_back({{n}, {}, {n}});
    cases.push_back({{}, {n}, {n}});
    if (n > 127) continue;
    cases.push_back({{5, n}, {n}, {5, n}});
    cases.push_back({{5, n}, {5, 1}, {5, n}});
    cases.push_back({{n, 1}, {n, 9}, {n, 9}});
  }
  cases.push_back({{300, 173}, {173}, {300, 173}});  // rows cut by the borders of chunks
  cases.push_back({{300, 1}, {300, 173}, {300, 173}});
  return cases;
}

template <class T>
class Binary : public ::testing::Test {
 protected:
  // Operands that are never 0, so that integers divide.
  static Tensor operand(const Shape& shape, std::uint64_t seed) {
    return testing::random_tensor<T>(shape, seed, 1, 20);
  }

  static void expect(BinaryOp op, const Tensor& a, const Tensor& b, const Shape& shape,
                     const std::function<double(double, double)>& want) {
    const Tensor x = a.expand(shape), y = b.expand(shape);
    const Tensor out = placed::empty(shape, dtype_of<T>());
    tested.elementwise->binary(op, x, y, out);
    const auto p = x.to_vector<T>(), q = y.to_vector<T>(), got = out.template to_vector<T>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto expected =
          static_cast<T>(want(static_cast<double>(p[i]), static_cast<double>(q[i])));
      ASSERT_EQ(static_cast<double>(got[i]), static_cast<double>(expected))
          << static_cast<int>(op) << to_string(a.shape()) << to_string(b.shape()) << " at " << i;
    }
  }
};

// Of the doubles 1..20 and their quotients, every result rounds to T as the same operation in T.
using AllTypes = ::testing::Types<float, double, std::int32_t, std::int64_t, std::uint8_t>;
TYPED_TEST_SUITE(Binary, AllTypes);

TYPED_TEST(Binary, BroadcastsEveryWay) {
  using Fn = std::function<double(double, double)>;
  const std::vector<std::pair<BinaryOp, Fn>> ops{
      {BinaryOp::add, [](double a, double b) { return a + b; }},
      {BinaryOp::mul, [](double a, double b) { return a * b; }},
      {BinaryOp::div, [](double a, double b) { return a / b; }},
      {BinaryOp::maximum, [](double a, double b) { return std::max(a, b); }},
      {BinaryOp::minimum, [](double a, double b) { return std::min(a, b); }}};
  for (const Shapes& s : shape_cases()) {
    if (s.a.size() == 1 && s.a[0] > 20000 && std::is_integral_v<TypeParam>) continue;
    const Tensor a = this->operand(s.a, 1), b = this->operand(s.b, 2);
    for (const auto& [op, want] : ops) {
      if (std::is_same_v<TypeParam, std::uint8_t> && op == BinaryOp::mul) continue;  // wraps
      this->expect(op, a, b, s.out, want);
    }
    if (!std::is_same_v<TypeParam, std::uint8_t>)
      this->expect(BinaryOp::sub, a, b, s.out, [](double x, double y) { return x - y; });
  }
}

TYPED_TEST(Binary, TakesTransposedAndMisalignedOperands) {
  const Tensor a = this->operand({33, 18}, 3), b = this->operand({18, 35}, 4);
  const auto add = [](double x, double y) { return x + y; };
  this->expect(BinaryOp::add, a.transpose(0, 1), b.slice(1, 1, 34), {18, 33}, add);
  this->expect(BinaryOp::add, b.slice(1, 2, 35), a.transpose(0, 1), {18, 33}, add);
  this->expect(BinaryOp::add, a.slice(1, 1, 2), a, {33, 18}, add);
}

template <class T>
class BinaryReal : public ::testing::Test {};
using RealTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(BinaryReal, RealTypes);

TYPED_TEST(BinaryReal, NanWinsMaximumAndMinimum) {
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
  std::vector<TypeParam> numbers(17, 1), nans(17, nan);
  const Tensor x = placed::from(numbers, {17}), y = placed::from(nans, {17});
  for (const BinaryOp op : {BinaryOp::maximum, BinaryOp::minimum}) {
    const Tensor left = x.empty_like(), right = x.empty_like();
    tested.elementwise->binary(op, x, y, left);
    tested.elementwise->binary(op, y, x, right);
    for (const TypeParam value : left.template to_vector<TypeParam>())
      EXPECT_TRUE(std::isnan(value));
    for (const TypeParam value : right.template to_vector<TypeParam>())
      EXPECT_TRUE(std::isnan(value));
  }
}

TYPED_TEST(BinaryReal, AddsInPlace) {
  for (const std::int64_t n : testing::ragged_sizes) {
    const Tensor x = testing::random_tensor<TypeParam>({n}, 5);
    const Tensor whole = placed::full({n + 4}, 3, x.dtype());
    tested.elementwise->add_in_place(whole.slice(0, 3, n + 3), x);
    const auto got = whole.template to_vector<TypeParam>(),
               added = x.template to_vector<TypeParam>();
    ASSERT_EQ(got[2], 3);
    ASSERT_EQ(got.back(), 3);
    for (std::size_t i = 0; i < added.size(); ++i) ASSERT_EQ(got[i + 3], 3 + added[i]);
  }
}

TYPED_TEST(BinaryReal, AddsInPlaceToAndFromViews) {
  const Tensor x = testing::random_tensor<TypeParam>({7, 9}, 6);
  const Tensor out = placed::full({9, 7}, 1, x.dtype());
  tested.elementwise->add_in_place(out.transpose(0, 1), x);  // strided out
  tested.elementwise->add_in_place(out, x.transpose(0, 1));  // strided x
  tested.elementwise->add_in_place(out,
                                   x.slice(0, 0, 1).slice(1, 0, 1).expand({9, 7}));  // one value
  tested.elementwise->add_in_place(out,
                                   x.slice(0, 2, 3).transpose(0, 1).expand({9, 7}));  // a column
  const auto got = out.template to_vector<TypeParam>(), v = x.template to_vector<TypeParam>();
  for (std::size_t r = 0; r < 9; ++r) {
    for (std::size_t c = 0; c < 7; ++c) {
      TypeParam want = 1;
      for (const TypeParam term : {v[c * 9 + r], v[c * 9 + r], v[0], v[2 * 9 + r]}) want += term;
      ASSERT_EQ(got[r * 7 + c], want) << r << " " << c;
    }
  }
}

TYPED_TEST(BinaryReal, ScalesInPlace) {
  const Tensor x = testing::random_tensor<TypeParam>({21, 11}, 7), whole = x.clone();
  tested.elementwise->scale_in_place(whole.slice(1, 2, 9), 0.5);
  tested.elementwise->scale_in_place(whole.slice(0, 20, 21), 4);
  const auto before = x.template to_vector<TypeParam>(),
             got = whole.template to_vector<TypeParam>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t c = i % 11;
    const double factor = (c >= 2 && c < 9 ? 0.5 : 1.0) * (i / 11 == 20 ? 4 : 1);
    ASSERT_EQ(got[i], before[i] * static_cast<TypeParam>(factor)) << i;
  }
}

TYPED_TEST(BinaryReal, ThreadsDoNotMatter) {
  const Tensor a = testing::random_tensor<TypeParam>({301, 257}, 8);
  const Tensor b = testing::random_tensor<TypeParam>({257}, 9);
  testing::expect_same_for_every_thread_count<TypeParam>([&] {
    const Tensor out = a.clone();
    tested.elementwise->add_in_place(out, b.expand(a.shape()));
    return out;
  });
}

TEST(BinaryIntegers, WrapAroundAndRefuseToDivideByZero) {
  const auto largest = std::numeric_limits<std::int32_t>::max();
  const auto smallest = std::numeric_limits<std::int32_t>::min();
  const Tensor a = placed::from(std::vector<std::int32_t>{largest, smallest}, {2});
  const Tensor minus = placed::from(std::vector<std::int32_t>{-1, -1}, {2}), out = a.empty_like();
  tested.elementwise->binary(BinaryOp::sub, a, minus, out);
  EXPECT_EQ(out.to_vector<std::int32_t>(), (std::vector<std::int32_t>{smallest, smallest + 1}));
  tested.elementwise->binary(BinaryOp::div, a, minus, out);
  EXPECT_EQ(out.to_vector<std::int32_t>(), (std::vector<std::int32_t>{-largest, smallest}));
  EXPECT_THROW(tested.elementwise->binary(BinaryOp::div, a, placed::zeros({2}, DType::i32), out),
               Error);
}

TEST(BinaryBf16, ComputesInFloat) {
  const Tensor a = placed::full({19}, 1.5, DType::bf16), b = placed::full({19}, 0.25, DType::bf16);
  const Tensor out = a.empty_like();
  tested.elementwise->binary(BinaryOp::mul, a, b, out);
  EXPECT_EQ(out.to_vector<float>(), std::vector<float>(19, 0.375f));
}

TEST(Compare, EveryTypeAndRelation) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    const Tensor a = placed::arange(40, dtype), b = placed::full({}, 20, dtype).expand({40});
    const Tensor out = placed::empty({40}, DType::u8);
    const std::vector<std::pair<CompareOp, std::function<bool(int)>>> ops{
        {CompareOp::less, [](int i) { return i < 20; }},
        {CompareOp::less_equal, [](int i) { return i <= 20; }},
        {CompareOp::equal, [](int i) { return i == 20; }}};
    for (const auto& [op, want] : ops) {
      tested.elementwise->compare(op, a, b, out);
      const auto got = out.to_vector<std::uint8_t>();
      for (int i = 0; i < 40; ++i) ASSERT_EQ(got[static_cast<std::size_t>(i)], want(i)) << i;
    }
  }
}

TEST(Compare, KeepsTheSignOfIntegersAndIsFalseForNan) {
  const Tensor out = placed::empty({1}, DType::u8);
  tested.elementwise->compare(CompareOp::less, placed::full({1}, -1, DType::i64),
                              placed::zeros({1}, DType::i64), out);
  EXPECT_EQ(out.item(), 1);
  const Tensor nan = placed::full({1}, std::nan(""), DType::f64);
  for (const CompareOp op : {CompareOp::less, CompareOp::less_equal, CompareOp::equal}) {
    tested.elementwise->compare(op, nan, nan, out);
    EXPECT_EQ(out.item(), 0);
  }
}

TEST(Where, ChoosesOverEveryBroadcast) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::bf16}) {
    for (const std::int64_t n : {0, 1, 7, 16, 33, 127}) {
      const Shape shape{6, n};
      const Tensor full = placed::arange(6 * n, dtype).reshape(shape);
      const Tensor scalar = placed::full({}, 100, dtype).expand(shape);
      Tensor condition = placed::zeros({6, 1}, DType::u8);
      condition.slice(0, 2, 5).fill(1);
      for (const bool swapped : {false, true}) {
        const Tensor out = full.empty_like();
        tested.elementwise->where(condition.expand(shape), swapped ? scalar : full,
                                  swapped ? full : scalar, out);
        const auto got = out.to_vector<double>(), x = full.to_vector<double>();
        for (std::size_t i = 0; i < got.size(); ++i) {
          const auto row = static_cast<std::int64_t>(i) / n;
          const bool chosen = (row >= 2 && row < 5) != swapped;
          ASSERT_EQ(got[i], chosen ? x[i] : 100) << i;
        }
      }
    }
  }
}

TEST(ElementwiseOps, BinaryBroadcastsViews) {
  const Tensor x = counting({2, 3}), column = counting({2, 1});
  EXPECT_EQ(add(x, column).to_vector<double>(), (Values{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(mul(x.transpose(0, 1), column.reshape({2})).to_vector<double>(),
            (Values{0, 3, 0, 4, 0, 5}));
  EXPECT_EQ(error_of([&] {
              (void)add(x, counting({2, 2}));
            }),
            "add: shapes [2, 3] and [2, 2] do not broadcast");
  EXPECT_EQ(error_of([&] { (void)add(x, x.to(DType::f32)); }), "add: types f64 and f32 differ");
}

TEST(ElementwiseOps, CompareAndWhere) {
  const Tensor x = counting({4}), two = placed::full({}, 2, DType::f64);
  const Tensor less = compare(CompareOp::less, x, two);
  EXPECT_EQ(less.to_vector<double>(), (Values{1, 1, 0, 0}));
  EXPECT_EQ(compare(CompareOp::less_equal, x, two).to_vector<double>(), (Values{1, 1, 1, 0}));
  EXPECT_EQ(compare(CompareOp::equal, x, two).to_vector<double>(), (Values{0, 0, 1, 0}));
  EXPECT_EQ(where(less, x, two).to_vector<double>(), (Values{0, 1, 2, 2}));
}

}  // namespace
}  // namespace mobius::binary_test
