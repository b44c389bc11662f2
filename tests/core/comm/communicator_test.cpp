// One rank, and the division of work. Several ranks: tests/distributed.

#include "core/comm/communicator.h"

#include <gtest/gtest.h>

namespace mobius::communicator_test {
namespace {

TEST(ShareOf, DividesIntoConsecutivePartsOfAboutEqualSize) {
  for (std::int64_t n : {0, 1, 5, 7, 8, 1000}) {
    for (std::int64_t count : {1, 2, 3, 4, 7}) {
      std::int64_t end = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const Share share = share_of(n, i, count);
        EXPECT_EQ(share.begin, end);
        EXPECT_GE(share.size(), n / count);
        EXPECT_LE(share.size(), (n + count - 1) / count);
        end = share.end;
      }
      EXPECT_EQ(end, n);
    }
  }
}

TEST(OneRank, LeavesThingsAsTheyAre) {
  OneRank alone;
  EXPECT_EQ(alone.size(), 1);
  EXPECT_TRUE(alone.is_root());
  const Tensor values = Tensor::from(std::vector<float>{1, 2, 3, 4}, {4});
  std::vector<std::unique_ptr<Pending>> started;
  started.push_back(alone.start_sum(values));
  started.push_back(alone.start_reduce_scatter(values));
  started.push_back(alone.start_all_gather(values));
  for (const auto& pending : started) {
    pending->advance();
    pending->wait();
  }
  alone.broadcast(values);
  EXPECT_EQ(values.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(alone.broadcast("text"), "text");
  EXPECT_TRUE(alone.any(true));
  EXPECT_FALSE(alone.any(false));
}

}  // namespace
}  // namespace mobius::communicator_test
