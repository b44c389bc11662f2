// Holds every case of every .h5 file in MOBIUS_GOLDEN_DIR (the environment variable, else the
// folder of this file) against the library, in f64 and in f32: one test a file, case and type; and
// quadratic attention in f32 with leave to round its operands to bf16. A new case needs no code; a
// new file needs an entry in operations.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "autograd/ops.h"
#include "core/error.h"
#include "core/ops.h"
#include "tests/golden/operations.h"

namespace mobius::golden {

namespace {

namespace fs = std::filesystem;

struct Tolerance {
  double value, gradient;
};

/// The arithmetic of a test.
struct Arithmetic {
  DType dtype;
  MatmulPrecision products = MatmulPrecision::full;

  std::string name() const {
    return std::string(products == MatmulPrecision::full ? name_of(dtype) : "bf16");
  }
};

Tolerance tolerance_of(Arithmetic arithmetic) {
  if (arithmetic.products == MatmulPrecision::bf16) return {2e-2, 3e-2};
  return arithmetic.dtype == DType::f64 ? Tolerance{1e-10, 1e-8} : Tolerance{2e-5, 2e-4};
}

double norm_of(const Tensor& tensor) { return std::sqrt(sum_of_squares(tensor.contiguous())); }

// |got - expected| / |expected| over all elements. Below `floor`, |expected| counts as `floor`.
double relative_error(const Tensor& got, const Tensor& expected, double floor) {
  const double difference = norm_of(sub(got.to(DType::f64), expected.to(DType::f64)));
  return difference / std::max(norm_of(expected.to(DType::f64)), floor);
}

// What a type cannot hold is zero.
double smallest_of(DType dtype) {
  return dtype == DType::f64 ? std::numeric_limits<double>::min()
                             : static_cast<double>(std::numeric_limits<float>::min());
}

// Rounding leaves a few units in the last place of the size that a gradient would have without
// cancellation, |outputs| |cotangents| / |input|. One whose terms cancel below what that allows
// (the only key's, where the weights are normalised) is held against the smallest that can be told.
double gradient_floor(const GoldenCase& golden, const Tensor& input, Arithmetic arithmetic) {
  double size = 0;
  for (const auto& [name, cotangent] : golden.cotangents)
    size += norm_of(golden.outputs.at(name)) * norm_of(cotangent);
  const double input_size = norm_of(input);
  if (input_size == 0) return 0;
  double unit = arithmetic.dtype == DType::f64 ? std::numeric_limits<double>::epsilon()
                                               : std::numeric_limits<float>::epsilon();
  if (arithmetic.products == MatmulPrecision::bf16) unit = 0x1p-12;  // errors average over sums
  return 8 * unit / tolerance_of(arithmetic).gradient * size / input_size;
}

// The largest errors seen, by file and type; printed at the end.
class Worst : public ::testing::Environment {
 public:
  void add(const std::string& file, Tolerance error) {
    Tolerance& worst = worst_[file];
    worst = {std::max(worst.value, error.value), std::max(worst.gradient, error.gradient)};
  }

  void TearDown() override {
    fmt::print("largest relative errors\n{:<28} {:>10} {:>10}\n", "", "value", "gradient");
    for (const auto& [file, error] : worst_)
      fmt::print("{:<28} {:>10.1e} {:>10.1e}\n", file, error.value, error.gradient);
  }

 private:
  std::map<std::string, Tolerance> worst_;
};

class GoldenTest : public ::testing::Test {
 public:
  GoldenTest(fs::path file, std::string name, Arithmetic arithmetic, Worst& worst)
      : file_(std::move(file)),
        name_(std::move(name)),
        arithmetic_(arithmetic),
        dtype_(arithmetic.dtype),
        worst_(worst) {}

  void TestBody() override {
    const auto operation = operations().find(file_.stem());
    ASSERT_NE(operation, operations().end())
        << "no operation is registered for " << file_ << "; see tests/golden/operations.cpp";
    const GoldenCase golden = read_case(file_, name_);
    // Distances of points in a few dimensions are differences of nearly equal numbers.
    if (arithmetic_.products == MatmulPrecision::bf16 && golden.inputs.at("q").size(-1) < 8)
      GTEST_SKIP() << "it takes more digits than bf16 has";
    Arguments arguments(golden, dtype_, arithmetic_.products);
    const Operation& run = operation->second;
    // Only where MOBIUS_GOLDEN_DIR has cases of parts this version lacks: tests/golden has none.
    if (!run) GTEST_SKIP() << "not in this version";

    ASSERT_FALSE(golden.outputs.empty());
    const Outputs outputs = run(arguments);
    const double value_error = compare_outputs(golden, outputs);
    const double gradient_error = compare_gradients(golden, outputs, arguments);
    worst_.add(fmt::format("{} {}", file_.stem().string(), arithmetic_.name()),
               {value_error, gradient_error});
  }

 private:
  double compare(const std::string& what, const Tensor& got, const Tensor& expected, double floor,
                 double tolerance) const {
    EXPECT_EQ(got.shape(), expected.shape()) << what;
    EXPECT_EQ(got.dtype(), dtype_) << what;
    if (got.shape() != expected.shape()) return INFINITY;
    const double error = relative_error(got, expected, std::max(floor, smallest_of(dtype_)));
    // A NaN compares false, and so fails.
    EXPECT_LT(error, tolerance) << what;
    return error;
  }

  double compare_outputs(const GoldenCase& golden, const Outputs& outputs) const {
    double worst = 0;
    for (const auto& [name, expected] : golden.outputs) {
      if (!outputs.contains(name)) {
        ADD_FAILURE() << "the operation gives no output '" << name << "'";
        continue;
      }
      worst = std::max(worst, compare("output " + name, outputs.at(name).data(), expected,
                                      /*floor=*/0, tolerance_of(arithmetic_).value));
    }
    return worst;
  }

  double compare_gradients(const GoldenCase& golden, const Outputs& outputs,
                           const Arguments& arguments) const {
    if (golden.gradients.empty()) return 0;
    Variable total;
    for (const auto& [name, cotangent] : golden.cotangents) {
      const Variable part = sum(outputs.at(name) * Variable(cotangent.to(dtype_)));
      total = total.defined() ? total + part : part;
    }
    backward(total);
    double worst = 0;
    for (const auto& [name, expected] : golden.gradients)
      worst = std::max(worst, compare("gradient of " + name, arguments.gradient(name), expected,
                                      gradient_floor(golden, golden.inputs.at(name), arithmetic_),
                                      tolerance_of(arithmetic_).gradient));
    return worst;
  }

  fs::path file_;
  std::string name_;
  Arithmetic arithmetic_;
  DType dtype_;
  Worst& worst_;
};

std::vector<fs::path> golden_files() {
  const char* asked = std::getenv("MOBIUS_GOLDEN_DIR");
  const fs::path folder = asked != nullptr ? asked : MOBIUS_GOLDEN_DIR;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".h5") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  if (files.empty()) throw Error("golden: no .h5 file in {}", folder.string());
  return files;
}

// Those whose operation takes Arguments::products().
bool is_quadratic_attention(const fs::path& file) {
  const std::string stem = file.stem();
  return stem == "softmax_attention" || stem == "conformal_attention" || stem == "sparse_attention";
}

void register_tests(Worst& worst) {
  for (const fs::path& file : golden_files()) {
    std::vector<Arithmetic> kinds{{DType::f64}, {DType::f32}};
    if (is_quadratic_attention(file)) kinds.push_back({DType::f32, MatmulPrecision::bf16});
    for (const std::string& name : case_names(file))
      for (const Arithmetic kind : kinds)
        ::testing::RegisterTest(
            file.stem().c_str(), fmt::format("{}_{}", name, kind.name()).c_str(), nullptr, nullptr,
            __FILE__, __LINE__,
            [=, &worst]() -> ::testing::Test* { return new GoldenTest(file, name, kind, worst); });
  }
}

}  // namespace

}  // namespace mobius::golden

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  auto* worst = new mobius::golden::Worst;
  ::testing::AddGlobalTestEnvironment(worst);  // owns it
  try {
    mobius::golden::register_tests(*worst);
  } catch (const std::exception& error) {
    fmt::print(stderr, "golden_tests: {}\n", error.what());
    return 1;
  }
  return RUN_ALL_TESTS();
}
