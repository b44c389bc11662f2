#include "train/optim/arena.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace mobius::arena_test {
namespace {

constexpr std::int64_t kUnit = 64;  // elements of f32 in 256 bytes

TrainedParameter numbered(const std::string& name, Shape shape, double value) {
  return {name, Variable(Tensor::full(std::move(shape), value), true), true};
}

std::vector<TrainedParameter> some_parameters() {
  return {numbered("a", {3, 50}, 1), numbered("b", {7}, 2), numbered("c", {64}, 3),
          numbered("d", {10, 20}, 4)};
}

TEST(ParameterArena, KeepsHandlesNamesShapesAndValues) {
  const auto parameters = some_parameters();
  const Variable handle = parameters[0].value;
  const ParameterArena arena(parameters, 3, 4 * kUnit * 4);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Variable& value = arena.parameters()[i].value;
    EXPECT_TRUE(value.is(parameters[i].value));
    EXPECT_TRUE(value.data().shares_storage(arena.values()));
    EXPECT_EQ(
        value.data().to_vector<double>(),
        std::vector<double>(static_cast<std::size_t>(value.numel()), static_cast<double>(i + 1)));
  }
  EXPECT_EQ(handle.shape(), (Shape{3, 50}));
  EXPECT_TRUE(handle.data().is_contiguous());
  Tensor(handle.data()).fill(9);
  EXPECT_EQ(arena.parameter(arena.values(), 0).slice(0, 2, 3).slice(1, 49, 50).item(), 9);
}

TEST(ParameterArena, LaysBucketsOutInReverseOrderWithEqualAlignedParts) {
  for (const int ranks : {1, 2, 3, 4}) {
    const ParameterArena arena(some_parameters(), ranks, 4 * kUnit * 4);
    std::vector<std::size_t> order;
    std::int64_t end = 0;
    for (const auto& bucket : arena.buckets()) {
      EXPECT_EQ(bucket.begin, end);
      EXPECT_EQ((bucket.end - bucket.begin) % (ranks * kUnit), 0);
      end = bucket.end;
      order.insert(order.end(), bucket.parameters.begin(), bucket.parameters.end());
    }
    EXPECT_EQ(end, arena.values().numel());
    EXPECT_EQ(order, (std::vector<std::size_t>{3, 2, 1, 0}));
    EXPECT_EQ(arena.buckets().size(), 3u);  // d, c and b, a: 4, 1 + 1 and 3 units
    const char* begin = static_cast<const char*>(arena.values().raw());
    for (const TrainedParameter& parameter : arena.parameters()) {
      const auto offset = static_cast<const char*>(parameter.value.data().raw()) - begin;
      EXPECT_EQ(offset % 256, 0) << parameter.name;
    }
  }
}

// Every element of every parameter is in one shard, where the buffers of the shards, put together
// bucket by bucket, have it.
TEST(ParameterArena, DividesParametersAmongShards) {
  const int ranks = 3;
  const ParameterArena arena(some_parameters(), ranks, 1);
  for (std::size_t i = 0; i < arena.parameters().size(); ++i) {
    const Tensor numbers =
        Tensor::arange(arena.parameters()[i].value.numel(), DType::i64).to(DType::f32);
    std::int64_t next = 0;
    for (int index = 0; index < ranks; ++index) {
      const Shard shard{index, ranks};
      const Tensor buffer = arena.zeros(shard);
      EXPECT_EQ(buffer.numel(), arena.values().numel() / ranks);
      const auto [elements, begin] = arena.piece(i, shard);
      if (elements.size() == 0) continue;
      EXPECT_EQ(elements.begin, next);
      next = elements.end;
      const Tensor of = arena.piece_of(numbers, i, shard);
      EXPECT_EQ(of.slice(0, 0, 1).item(), elements.begin);
      arena.piece_in(buffer, i, shard).copy_from(of);
      EXPECT_EQ(buffer.slice(0, begin, begin + 1).item(), elements.begin);
    }
    EXPECT_EQ(next, numbers.numel());
  }
}

TEST(ParameterArena, GivesTheWholeInTheParametersShape) {
  const ParameterArena arena(some_parameters());
  EXPECT_EQ(arena.piece_in(arena.zeros(), 3, {}).shape(), (Shape{10, 20}));
  EXPECT_EQ(arena.buckets().size(), 1u);
}

TEST(ParameterArena, RefusesParametersOfSeveralTypes) {
  const TrainedParameter other = {"b", Variable(Tensor::zeros({2}, DType::f64), true), true};
  EXPECT_THROW(ParameterArena({numbered("a", {2}, 0), other}), Error);
}

}  // namespace
}  // namespace mobius::arena_test
