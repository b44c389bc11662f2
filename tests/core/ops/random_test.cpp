// Philox, streams, and the random kernels: each number is a function of (seed, stream, index).
#include <algorithm>
#include <bit>
#include <numbers>
#include <set>
#include <string>

#include "core/error.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::random_test {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers of philox4x32-10, from kat_vectors of the Random123 library.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0ull, ~0ull}, ~0ull), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x299f31d0a4093822, 0x0370734413198a2e}, 0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(StreamId, DiffersInEveryArgument) {
  std::set<std::uint64_t> seen;
  const std::vector<std::string> purposes{"",         "a",       "b",        std::string("a\0", 2),
                                          "dropout",  "dropouT", "abcdefgh", "abcdefg",
                                          "abcdefghi"};
  for (const std::string& purpose : purposes) {
    for (std::uint64_t a = 0; a < 50; ++a) {
      for (std::uint64_t b = 0; b < 50; ++b) seen.insert(stream_id(purpose, a, b));
    }
  }
  EXPECT_EQ(seen.size(), purposes.size() * 2500);
}

// Checkpoints and data order rest on these values: they must never change.
TEST(StreamId, IsFixed) {
  EXPECT_EQ(stream_id("init"), 0xa15e8388c398c45full);
  EXPECT_EQ(stream_id("a longer purpose", 7, 9), 0x4a261eaf9a49ffe0ull);
}

TEST(StreamId, FlipsAboutHalfOfTheBits) {
  int flipped = 0;
  for (int bit = 0; bit < 64; ++bit)
    flipped += std::popcount(stream_id("x", 5) ^ stream_id("x", 5 ^ (1ull << bit)));
  EXPECT_NEAR(flipped / 64.0, 32, 2);
}

TEST(Rng, WalksItsStream) {
  const RngKey key{3, 4};
  Rng rng(key);
  for (std::uint64_t block = 0; block < 5; ++block) {
    for (const std::uint32_t word : philox(key, block)) EXPECT_EQ(rng.next_u32(), word);
  }
  Rng wide(key);
  const auto words = philox(key, 0);
  EXPECT_EQ(wide.next_u64(), words[0] | std::uint64_t{words[1]} << 32);
  EXPECT_EQ(wide.uniform(),
            static_cast<double>((words[2] | std::uint64_t{words[3]} << 32) >> 11) * 0x1p-53);
}

TEST(Rng, BelowIsUniform) {
  Rng rng({1, 2});
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts[rng.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 5 * std::sqrt(10000 * 6 / 7.0));
  EXPECT_EQ(rng.below(1), 0u);
  const std::uint64_t most = (1ull << 63) + 1;  // half of all words must be drawn again
  for (int i = 0; i < 1000; ++i) EXPECT_LT(rng.below(most), most);
  EXPECT_THROW(rng.below(0), Error);
}

// Mean, variance, skewness and kurtosis within five standard errors of those of N(0, 1).
void expect_standard_normal(const std::vector<double>& z) {
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  for (const double v : z) {
    m1 += v;
    m2 += v * v;
    m3 += v * v * v;
    m4 += v * v * v * v;
  }
  const auto n = static_cast<double>(z.size());
  EXPECT_NEAR(m1 / n, 0, 5 * std::sqrt(1 / n));
  EXPECT_NEAR(m2 / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(m3 / n, 0, 5 * std::sqrt(15 / n));
  EXPECT_NEAR(m4 / n, 3, 5 * std::sqrt(96 / n));
}

TEST(Rng, NormalMoments) {
  Rng rng({5, 6});
  std::vector<double> z(200000);
  for (double& value : z) value = rng.normal();
  expect_standard_normal(z);
}

template <class T>
class RandomKernels : public ::testing::Test {
 protected:
  static constexpr RngKey key{0x123456789abcdef0, 0xfedcba9876543210};

  static std::vector<std::uint32_t> words(std::int64_t n) {
    std::vector<std::uint32_t> all;
    for (std::uint64_t block = 0; static_cast<std::int64_t>(all.size()) < n; ++block) {
      for (const std::uint32_t word : philox(key, block)) all.push_back(word);
    }
    return all;
  }
  // k / 2^bits, k the highest bits of what element i takes.
  static double fraction(const std::vector<std::uint32_t>& w, std::size_t i, int bits) {
    if (sizeof(T) == 4) return std::ldexp(static_cast<double>(w[i] >> (32 - bits)), -bits);
    const std::uint64_t both = w[2 * i] | std::uint64_t{w[2 * i + 1]} << 32;
    return std::ldexp(static_cast<double>(both >> (64 - bits)), -bits);
  }
  // A dense view of n elements that starts off a vector's border.
  static Tensor output(std::int64_t n) {
    return placed::full({n + 3}, 77, dtype_of<T>()).slice(0, 3, n + 3);
  }
  static Tensor normals(std::int64_t n) {
    const Tensor out = output(n);
    tested.random->random_normal(key, 0, 1, out);
    return out;
  }
};

using RealTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(RandomKernels, RealTypes);

TYPED_TEST(RandomKernels, UniformIsTheWordsOfTheStream) {
  for (const std::int64_t n : testing::ragged_sizes) {
    const Tensor out = this->output(n);
    tested.random->random_uniform(this->key, -1, 3, out);
    const auto got = out.template to_vector<TypeParam>();
    const auto w = this->words(2 * n);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double u = this->fraction(w, i, sizeof(TypeParam) == 4 ? 24 : 53);
      ASSERT_NEAR(got[i], -1 + 4 * u, 4 * std::numeric_limits<TypeParam>::epsilon())
          << n << " " << i;
    }
  }
}

TYPED_TEST(RandomKernels, UniformStaysBelowItsUpperEnd) {
  const Tensor out = this->output(100000);
  const TypeParam low = 1, high = std::nextafter(low, TypeParam{2});
  tested.random->random_uniform(this->key, low, high, out);  // half of the sums round up to `high`
  for (const TypeParam value : out.template to_vector<TypeParam>()) ASSERT_EQ(value, low);
}

TYPED_TEST(RandomKernels, NormalIsBoxMullerOfTheWords) {
  for (const std::int64_t n : testing::ragged_sizes) {
    const auto got = this->normals(n).template to_vector<TypeParam>();
    const auto w = this->words(2 * n + 4);
    const int bits = sizeof(TypeParam) == 4 ? 31 : 53;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t pair = i / 2 * 2;
      const double half = std::ldexp(0.5, -bits);
      const double radius = std::sqrt(-2 * std::log(this->fraction(w, pair, bits) + half));
      const double angle = 2 * std::numbers::pi * (this->fraction(w, pair + 1, bits) + half);
      const double want = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
      ASSERT_NEAR(got[i], want, 16 * std::numeric_limits<TypeParam>::epsilon()) << n << " " << i;
    }
  }
}

TYPED_TEST(RandomKernels, NormalHasItsMoments) {
  expect_standard_normal(this->normals(400000).template to_vector<double>());
  const Tensor out = this->output(1000);
  tested.random->random_normal(this->key, 5, 0, out);
  for (const double value : out.template to_vector<double>()) ASSERT_EQ(value, 5);
}

// The first elements do not depend on how many follow them, nor on the threads.
TYPED_TEST(RandomKernels, PrefixesAndThreadsDoNotMatter) {
  const auto many = this->normals(40000).template to_vector<TypeParam>();
  for (const std::int64_t n : {1, 2, 3, 1023, 1025, 16385}) {
    const auto few = this->normals(n).template to_vector<TypeParam>();
    EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin())) << n;
  }
  testing::expect_same_for_every_thread_count<TypeParam>([&] { return this->normals(50001); });
}

TYPED_TEST(RandomKernels, DropoutKeepsWhatItsWordsSay) {
  for (const double p : {0.0, 0.1, 0.5, 0.9}) {
    for (const std::int64_t n : testing::ragged_sizes) {
      const auto x = testing::random_values<TypeParam>(n, 1, 2, 7);
      const Tensor out = this->output(n);
      tested.random->dropout(this->key, p, testing::misaligned(x), out);
      const auto got = out.template to_vector<TypeParam>();
      const auto w = this->words(n);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const bool kept = w[i] >= std::round(p * 0x1p32);
        const TypeParam want = kept ? x[i] * static_cast<TypeParam>(1 / (1 - p)) : TypeParam{0};
        ASSERT_EQ(got[i], want) << p << " " << i;
      }
    }
  }
}

TYPED_TEST(RandomKernels, DropoutDropsTheShareAskedFor) {
  const std::int64_t n = 200000;
  const Tensor x = placed::ones({n}, dtype_of<TypeParam>()), y = x.empty_like();
  for (const double p : {0.1, 0.5}) {
    tested.random->dropout(this->key, p, x, y);
    const auto got = y.template to_vector<double>();
    const auto dropped = std::count(got.begin(), got.end(), 0);
    EXPECT_NEAR(dropped, n * p, 5 * std::sqrt(n * p * (1 - p)));
  }
  tested.random->dropout(this->key, 0, x, y);
  EXPECT_EQ(y.template to_vector<double>(), std::vector<double>(n, 1));
  tested.random->dropout(this->key, 1, x, y);
  EXPECT_EQ(y.template to_vector<double>(), std::vector<double>(n, 0));
}

TEST(RandomStreams, AreIndependent) {
  const auto draw = [](RngKey key) {
    const Tensor out = placed::empty({20000}, DType::f64);
    tested.random->random_normal(key, 0, 1, out);
    return out.to_vector<double>();
  };
  const auto base = draw({1, stream_id("a", 0)});
  for (const RngKey key :
       {RngKey{1, stream_id("a", 1)}, RngKey{1, stream_id("b", 0)}, RngKey{2, stream_id("a", 0)}}) {
    const auto other = draw(key);
    double product = 0;
    for (std::size_t i = 0; i < base.size(); ++i) product += base[i] * other[i];
    EXPECT_NEAR(product / 20000, 0, 5 / std::sqrt(20000));
  }
}

}  // namespace
}  // namespace mobius::random_test
