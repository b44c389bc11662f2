#include "core/tensor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/backend.h"
#include "tests/device.h"
#include "tests/error_of.h"

namespace mobius::tensor_test {
namespace {

Tensor counting(Shape shape) {
  return placed::arange(numel(shape), DType::f64).reshape(std::move(shape));
}

using Values = std::vector<double>;

TEST(Tensor, MakersFillEveryType) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    EXPECT_EQ(placed::full({2, 2}, 3, dtype).to_vector<double>(), Values(4, 3)) << name_of(dtype);
    EXPECT_EQ(placed::zeros({3}, dtype).to_vector<double>(), Values(3, 0)) << name_of(dtype);
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  }
  EXPECT_EQ(placed::arange(3).to_vector<double>(), (Values{0, 1, 2}));
  EXPECT_EQ(placed::from(std::vector<float>{1, 2}, {2, 1}).shape(), (Shape{2, 1}));
}

TEST(Tensor, ViewsShareStorageAndReadTheRightElements) {
  const Tensor x = counting({2, 3, 4});
  const Tensor t = x.transpose(0, 2);
  EXPECT_TRUE(t.shares_storage(x));
  EXPECT_EQ(t.shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(t.slice(0, 1, 2).to_vector<double>(), (Values{1, 13, 5, 17, 9, 21}));
  EXPECT_EQ(x.permute({1, 0, 2}).slice(0, 2, 3).to_vector<double>(),
            (Values{8, 9, 10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(x.slice(2, 1, 3).slice(1, 0, 1).to_vector<double>(), (Values{1, 2, 13, 14}));
  EXPECT_EQ(counting({2, 1}).expand({2, 2, 3}).to_vector<double>(),
            (Values{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(x.unsqueeze(-1).squeeze(3).shape(), x.shape());
}

TEST(Tensor, ReshapeIsAViewWhereStridesAllow) {
  const Tensor x = counting({4, 6});
  EXPECT_TRUE(x.reshape({2, -1, 3}).shares_storage(x));
  const Tensor columns = x.slice(1, 0, 3);
  EXPECT_TRUE(columns.reshape({2, 2, 3}).shares_storage(x));  // splits the outer dimension
  EXPECT_FALSE(columns.reshape({12}).shares_storage(x));
  const Tensor t = x.transpose(0, 1);
  EXPECT_EQ(t.reshape({24}).to_vector<double>(), t.contiguous().to_vector<double>());
  EXPECT_EQ(t.reshape({2, 3, 4}).to_vector<double>(), t.contiguous().to_vector<double>());
  // [B, N, H d] -> heads first, and back: the second reshape must copy.
  const Tensor heads = counting({2, 3, 4}).reshape({2, 3, 2, 2}).transpose(1, 2);
  EXPECT_EQ(heads.transpose(1, 2).reshape({2, 3, 4}).to_vector<double>(),
            counting({2, 3, 4}).to_vector<double>());
}

TEST(Tensor, ContiguityIgnoresDimensionsOfSizeOne) {
  EXPECT_TRUE(counting({1, 5}).transpose(0, 1).is_contiguous());
  EXPECT_FALSE(counting({2, 5}).transpose(0, 1).is_contiguous());
  EXPECT_TRUE(placed::empty({0, 5}).transpose(0, 1).is_contiguous());
}

TEST(Tensor, ErrorsNameTheOpAndTheShapes) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(error_of([&] { (void)x.reshape({4, 2}); }), "reshape: [2, 3] cannot become [4, 2]");
  EXPECT_EQ(error_of([&] { (void)x.reshape({4, -1}); }), "reshape: [2, 3] cannot become [4, -1]");
  EXPECT_EQ(error_of([&] { (void)x.slice(1, 2, 4); }), "slice: [2, 4) of dimension 1 of [2, 3]");
  EXPECT_EQ(error_of([&] { (void)x.transpose(0, 2); }),
            "transpose: dimension 2 of a tensor with 2 dimensions");
  EXPECT_EQ(error_of([&] { (void)x.permute({0, 0}); }), "permute: dimension 0 is named twice");
  EXPECT_EQ(error_of([&] {
              (void)x.expand({2, 4});
            }),
            "expand: shapes [2, 3] and [2, 4] do not broadcast");
  EXPECT_EQ(error_of([&] { (void)x.item(); }), "item: shape [2, 3] is not a single element");
  EXPECT_EQ(error_of([&] { (void)x.data<float>(); }), "tensor: elements are f64, not f32");
  EXPECT_EQ(error_of([&] { (void)Tensor().raw(); }), "tensor: an undefined tensor has no data");
  EXPECT_THROW(placed::empty({-1}), ShapeError);
  EXPECT_THROW(placed::empty({std::int64_t{1} << 40, std::int64_t{1} << 40}), ShapeError);
  EXPECT_THROW(placed::from(std::vector<float>{1, 2}, {3}), ShapeError);
}

TEST(Tensor, InPlaceChangesBumpTheVersionOfEveryView) {
  Tensor x = counting({2, 2});
  Tensor row = x.slice(0, 1, 2);
  const auto before = x.version();
  row.add_(placed::ones({1, 2}, DType::f64));
  row.scale_(2);
  EXPECT_EQ(x.to_vector<double>(), (Values{0, 1, 6, 8}));
  x.copy_from(placed::full({2}, 7, DType::f64));
  EXPECT_EQ(row.to_vector<double>(), (Values{7, 7}));
  row.fill(1);
  EXPECT_EQ(x.version(), before + 4);
}

TEST(Tensor, ConvertsBetweenTypes) {
  const Tensor x = placed::from(std::vector<double>{-1.5, 0, 3.75}, {3});
  EXPECT_EQ(x.to(DType::f32).to_vector<double>(), (Values{-1.5, 0, 3.75}));
  EXPECT_EQ(x.to(DType::bf16).to_vector<double>(), (Values{-1.5, 0, 3.75}));
  EXPECT_EQ(x.to(DType::i32).to_vector<double>(), (Values{-1, 0, 3}));
  EXPECT_TRUE(x.to(DType::f64).shares_storage(x));
  // Strided source: a converted view is the view of the converted.
  const Tensor t = counting({3, 2}).transpose(0, 1);
  EXPECT_EQ(t.to(DType::f32).to_vector<double>(), t.to_vector<double>());
}

TEST(Tensor, Bf16RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(1.00390625f).bits, 0x3f80);  // halfway: to even
  EXPECT_EQ(BFloat16(1.01171875f).bits, 0x3f82);  // halfway: to even, upwards
  EXPECT_EQ(BFloat16(3.4e38f).bits, 0x7f80);      // beyond the largest: infinity
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::nanf("")))));
}

TEST(Device, NamesRoundTripAndAbsentBackendsSaySo) {
  EXPECT_EQ(to_string(device_from_name("cpu")), "cpu");
  EXPECT_EQ(to_string(device_from_name("cuda:2")), "cuda:2");
  EXPECT_THROW(device_from_name("cuda:x"), Error);
  EXPECT_THROW(device_from_name("tpu"), Error);
}

}  // namespace
}  // namespace mobius::tensor_test
