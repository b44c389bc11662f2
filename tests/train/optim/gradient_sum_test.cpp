// When gradients travel. That they arrive: tests/distributed.

#include "train/optim/gradient_sum.h"

#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "core/error.h"

namespace mobius::gradient_sum_test {
namespace {

// Stands for the first of two ranks whose gradients are alike: every sum doubles.
class TwoAlike final : public Communicator {
 public:
  TwoAlike() : Communicator(0, 2, Device{}) {}

  struct Doubling final : Pending {
    explicit Doubling(Tensor sent) : values(std::move(sent)) {}
    void advance() override {}
    void wait() override { values.scale_(2); }
    Tensor values;
  };

  std::unique_ptr<Pending> start(Tensor values, Steps steps) override {
    if (!steps.reduces) throw Error("not asked for");
    const std::int64_t n = steps.gathers ? values.numel() : values.numel() / 2;
    started.push_back(n);
    return std::make_unique<Doubling>(values.slice(0, 0, n));
  }
  void sum(std::span<double>) override {}
  void broadcast(Tensor) override {}
  std::string broadcast(const std::string& text) override { return text; }
  void barrier() override {}
  void abort(int code) override { std::exit(code); }

  std::vector<std::int64_t> started;  // the size of each sum
};

// y = ((x w0) w1) w2: the gradient of w2 is ready first.
class GradientSumTest : public ::testing::Test {
 protected:
  GradientSumTest() {
    for (int i = 0; i < 3; ++i) {
      parameters_.push_back(
          {"w" + std::to_string(i), Variable(Tensor::full({16, 16}, i + 1), true), true});
    }
  }
  void run_backward() const {
    Variable x(Tensor::ones({2, 16}));
    for (const TrainedParameter& parameter : parameters_) x = matmul(x, parameter.value);
    backward(sum(x));
  }
  std::vector<float> gradient(std::size_t i) const {
    return parameters_[i].value.grad().to_vector<float>();
  }

  ParameterArena arena_of(std::int64_t bucket_bytes) const {
    return ParameterArena(parameters_, communicator_.size(), bucket_bytes);
  }

  static constexpr std::int64_t kOneParameter = 16 * 16 * sizeof(float);
  TwoAlike communicator_;
  std::vector<TrainedParameter> parameters_;
};

TEST_F(GradientSumTest, TravelWhileBackwardGoesOn) {
  const ParameterArena arena = arena_of(kOneParameter);
  GradientSum sum(communicator_, arena);
  std::size_t started_before_w0 = 0;
  parameters_[0].value.add_grad_hook(
      [&](Variable&) { started_before_w0 = communicator_.started.size(); });
  sum.start();
  run_backward();
  EXPECT_GE(started_before_w0, 2u);
  EXPECT_EQ(communicator_.started.size(), 3u);
  sum.finish();
  EXPECT_EQ(communicator_.started.size(), 3u);
}

TEST_F(GradientSumTest, StayBeforeTheLastMicroBatch) {
  run_backward();
  const std::vector<float> once = gradient(0);
  for (TrainedParameter& parameter : parameters_) parameter.value.zero_grad();

  const ParameterArena arena = arena_of(kOneParameter);
  GradientSum sum(communicator_, arena);
  run_backward();
  EXPECT_TRUE(communicator_.started.empty());
  sum.start();
  run_backward();
  sum.finish();
  EXPECT_EQ(communicator_.started.size(), 3u);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(gradient(0)[i], 2 * 2 * once[i]);
}

TEST_F(GradientSumTest, FillBucketsUpToTheirSize) {
  const auto sizes_with = [&](std::int64_t bucket_bytes) {
    communicator_.started.clear();
    for (TrainedParameter& parameter : parameters_) parameter.value.zero_grad();
    const ParameterArena arena = arena_of(bucket_bytes);
    GradientSum sum(communicator_, arena);
    sum.start();
    run_backward();
    sum.finish();
    return communicator_.started;
  };
  EXPECT_EQ(sizes_with(1), (std::vector<std::int64_t>{256, 256, 256}));
  EXPECT_EQ(sizes_with(2 * kOneParameter), (std::vector<std::int64_t>{512, 256}));
  EXPECT_EQ(sizes_with(100 * kOneParameter), (std::vector<std::int64_t>{768}));
}

TEST_F(GradientSumTest, SendZerosWhereARankHasNothing) {
  const ParameterArena arena = arena_of(kOneParameter);
  GradientSum sum(communicator_, arena);
  sum.start();
  sum.finish();
  EXPECT_EQ(communicator_.started.size(), 3u);
  EXPECT_FALSE(parameters_[0].value.grad().defined());
}

TEST_F(GradientSumTest, OfAShardSumsItsPart) {
  run_backward();
  const std::vector<float> once = gradient(1);
  for (TrainedParameter& parameter : parameters_) parameter.value.zero_grad();
  const ParameterArena arena = arena_of(kOneParameter);
  GradientSum sum(communicator_, arena, SumScope::shard);
  sum.start();
  run_backward();
  sum.finish();
  EXPECT_EQ(communicator_.started, (std::vector<std::int64_t>{128, 128, 128}));
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(gradient(1)[i], 2 * once[i]);
}

TEST_F(GradientSumTest, RefusesAnArenaForOtherRanks) {
  const ParameterArena arena(parameters_);
  EXPECT_THROW(GradientSum(communicator_, arena), Error);
}

TEST_F(GradientSumTest, OfOneRankLeavesGradientsAlone) {
  OneRank alone;
  const ParameterArena arena(parameters_);
  GradientSum sum(alone, arena);
  sum.start();
  run_backward();
  const std::vector<float> before = gradient(1);
  sum.finish();
  EXPECT_EQ(gradient(1), before);
}

}  // namespace
}  // namespace mobius::gradient_sum_test
