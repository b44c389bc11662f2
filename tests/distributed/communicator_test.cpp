#include "core/comm/communicator.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/ops.h"
#include "tests/distributed/ranks.h"

namespace mobius::communicator_test {
namespace {

double sum_of_ranks() { return ranks().size() * (ranks().size() - 1) / 2.0; }

TEST(Ranks, AreThoseThatWereLaunched) {
  const Launch launch = launch_of(process_environment());
  EXPECT_EQ(ranks().rank(), launch.rank);
  EXPECT_EQ(ranks().size(), launch.size);
}

TEST(Sum, AddsTensorsInPlace) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor values = Tensor::full({3, 5}, ranks().rank() + 1, dtype);
    const auto pending = ranks().start_sum(values);
    pending->advance();
    pending->wait();
    EXPECT_EQ(values.to_vector<double>(), std::vector<double>(15, sum_of_ranks() + ranks().size()));
  }
}

TEST(Sum, KeepsManyApartThatAreUnderWay) {
  std::vector<Tensor> values;
  std::vector<std::unique_ptr<Pending>> pending;
  for (int i = 0; i < 8; ++i) {
    values.push_back(Tensor::full({1000 * (i + 1)}, ranks().rank() * i));
    pending.push_back(ranks().start_sum(values.back()));
  }
  for (int i = 7; i >= 0; --i) {
    pending[static_cast<std::size_t>(i)]->wait();
    EXPECT_EQ(values[static_cast<std::size_t>(i)].slice(0, 999, 1000).item(), sum_of_ranks() * i);
  }
}

// Returns numbers whose sum depends on the order of addition.
Tensor numbers_of_this_rank() {
  return random_normal({100000}, 0, 1,
                       {.seed = 7, .stream = static_cast<std::uint64_t>(ranks().rank())});
}

TEST(Sum, IsTheSameToTheBitOnEveryRankAndEveryTime) {
  const Tensor first = numbers_of_this_rank();
  ranks().start_sum(first)->wait();
  for (int repetition = 0; repetition < 5; ++repetition) {
    const Tensor again = numbers_of_this_rank();
    ranks().start_sum(again)->wait();
    EXPECT_EQ(again.to_vector<float>(), first.to_vector<float>());
  }
  const Tensor roots = first.clone();
  ranks().broadcast(roots);
  EXPECT_EQ(roots.to_vector<float>(), first.to_vector<float>());
}

TEST(Any, KnowsWhatOneRankKnows) {
  EXPECT_TRUE(ranks().any(ranks().rank() == ranks().size() - 1));
  EXPECT_FALSE(ranks().any(false));
}

TEST(Broadcast, GivesWhatTheRootHas) {
  const Tensor values = Tensor::full({4}, ranks().rank() + 3, DType::i32);
  ranks().broadcast(values);
  EXPECT_EQ(values.to_vector<std::int32_t>(), std::vector<std::int32_t>(4, 3));
  const std::string text = ranks().is_root() ? "from the root" : "another and longer text";
  EXPECT_EQ(ranks().broadcast(text), "from the root");
  EXPECT_EQ(ranks().broadcast(ranks().is_root() ? "" : "not empty"), "");
}

Share own_part(std::int64_t n) { return share_of(n, ranks().rank(), ranks().size()); }

TEST(Sum, ServesSizesThatDoNotDivide) {
  for (const std::int64_t n : {1, 2, 3, 7, 64, 1001}) {
    const Tensor values = Tensor::full({n}, ranks().rank());
    ranks().start_sum(values)->wait();
    EXPECT_EQ(values.to_vector<double>(),
              std::vector<double>(static_cast<std::size_t>(n), sum_of_ranks()));
  }
}

// The results agree to the bit, although the order of additions matters.
TEST(ReduceScatter, LeavesItsPartOfTheSum) {
  const std::int64_t n = 1000 * ranks().size();
  const auto numbers = [&] { return numbers_of_this_rank().slice(0, 0, n).contiguous(); };
  const Tensor sum = numbers(), scattered = numbers();
  ranks().start_sum(sum)->wait();
  ranks().start_reduce_scatter(scattered)->wait();
  const Share own = own_part(n);
  EXPECT_EQ(scattered.slice(0, own.begin, own.end).to_vector<float>(),
            sum.slice(0, own.begin, own.end).to_vector<float>());
}

TEST(AllGather, PutsPartsTogether) {
  const std::int64_t n = 21 * ranks().size();
  for (const DType dtype : {DType::f32, DType::i64, DType::u8}) {
    const Tensor expected = Tensor::arange(n).to(dtype);
    const Tensor values = Tensor::full({n}, 100, dtype);
    const Share own = own_part(n);
    values.slice(0, own.begin, own.end).copy_from(expected.slice(0, own.begin, own.end));
    ranks().start_all_gather(values)->wait();
    EXPECT_EQ(values.to_vector<double>(), expected.to_vector<double>());
  }
}

TEST(AllGather, OfOneAndSumOfAnotherGoOnTogether) {
  const std::int64_t n = 50000 * ranks().size();
  const Tensor sum = Tensor::full({n}, 1), parts = Tensor::full({n}, ranks().rank());
  const auto summing = ranks().start_sum(sum);
  const auto gathering = ranks().start_all_gather(parts);
  gathering->wait();
  summing->wait();
  EXPECT_EQ(sum.slice(0, n - 1, n).item(), ranks().size());
  EXPECT_EQ(parts.slice(0, n - 1, n).item(), ranks().size() - 1);
}

TEST(Parts, OfUnequalSizeAreRefused) {
  if (ranks().size() == 1) GTEST_SKIP() << "one rank does nothing";
  const Tensor values = Tensor::zeros({ranks().size() + 1});
  EXPECT_THROW(ranks().start_reduce_scatter(values), Error);
  EXPECT_THROW(ranks().start_all_gather(values), Error);
}

}  // namespace
}  // namespace mobius::communicator_test
