#include "core/comm/communicator.h"

#include <gtest/gtest.h>

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

// The sizes include indivisible ones and fewer elements than ranks.
TEST(Gather, PutsSharesTogether) {
  for (const std::int64_t n : {1, 2, 3, 7, 64, 1001}) {
    const Share share = share_of(n, ranks().rank(), ranks().size());
    const Tensor expected = Tensor::arange(n).to(DType::f32);
    const Tensor own = expected.slice(0, share.begin, share.end);

    const Tensor everywhere = Tensor::full({n}, -1);
    everywhere.slice(0, share.begin, share.end).copy_from(own);
    ranks().all_gather(everywhere);
    EXPECT_EQ(everywhere.to_vector<float>(), expected.to_vector<float>());

    const Tensor at_root = ranks().is_root() ? Tensor::full({n}, -1) : Tensor();
    ranks().gather(own, at_root);
    if (ranks().is_root()) {
      EXPECT_EQ(at_root.to_vector<float>(), expected.to_vector<float>());
    }
  }
}

}  // namespace
}  // namespace mobius::communicator_test
