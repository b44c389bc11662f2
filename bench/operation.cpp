// Times one operation of a device on large operands: products against its arithmetic, the others
// against its memory. Prints one JSON line: ms, ms_min, gflop (of products) and mbyte (that must be
// read and written). See bench/README.md.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/timing.h"
#include "core/ops.h"

namespace {

using namespace mobius;

struct Arguments {
  std::string operation = "product";
  std::int64_t n = 4096;
  double time_s = 0.5;
  Machine machine;
};

struct Operation {
  std::function<void()> call;
  double gflop = 0, mbyte = 0;
};

constexpr std::int64_t row = 1024;  // elements of a row of n / 1024 thousand rows

Tensor rows_of(const Arguments& a, std::uint64_t stream) {
  return random_normal({a.n * a.n / row, row}, 0, 1, {1, stream}, DType::f32, a.machine.device());
}

// Passes over tensors of n^2 elements of f32.
double mbytes(const Arguments& a, double passes) {
  return 4e-6 * passes * static_cast<double>(a.n * a.n);
}

Operation product(const Arguments& a) {
  const auto operand = [&](std::uint64_t stream) {
    return product_operand(
        random_normal({a.n, a.n}, 0, 1, {1, stream}, DType::f32, a.machine.device()),
        a.machine.precision);
  };
  const Tensor x = operand(1), y = operand(2);
  const auto n = static_cast<double>(a.n);
  return {.call = [=] { matmul(x, y); }, .gflop = 2e-9 * n * n * n};
}

Operation copy(const Arguments& a) {
  const Tensor x = rows_of(a, 1);
  return {.call = [=] { x.clone(); }, .mbyte = mbytes(a, 2)};
}

Operation add_two(const Arguments& a) {
  const Tensor x = rows_of(a, 1), y = rows_of(a, 2);
  return {.call = [=] { add(x, y); }, .mbyte = mbytes(a, 3)};
}

Operation normalise(const Arguments& a) {
  const Tensor x = rows_of(a, 1), weight = Tensor::ones({row}, DType::f32, a.machine.device());
  return {.call = [=] { rms_norm(x, weight, 1e-6); }, .mbyte = mbytes(a, 2)};
}

Operation normalise_backward(const Arguments& a) {
  const Tensor x = rows_of(a, 1), weight = Tensor::ones({row}, DType::f32, a.machine.device());
  const NormResult result = rms_norm(x, weight, 1e-6);
  return {.call = [=, grad = rows_of(a, 2)] { rms_norm_backward(x, weight, result.rstd, grad); },
          .mbyte = mbytes(a, 3)};
}

Operation rotate(const Arguments& a) {
  const Tensor x = rows_of(a, 1).reshape({-1, row, 64});
  return {.call = [=] { rope(x, 10000, 0); }, .mbyte = mbytes(a, 2)};
}

Operation directions(const Arguments& a) {
  const Tensor x = rows_of(a, 1).reshape({-1, row, 64});
  return {.call = [=] { polar(x); }, .mbyte = mbytes(a, 2)};
}

Operation gated(const Arguments& a) {
  const Tensor gate = rows_of(a, 1), up = rows_of(a, 2);
  return {.call = [=] { swiglu(gate, up); }, .mbyte = mbytes(a, 3)};
}

Operation total(const Arguments& a) {
  const Tensor x = rows_of(a, 1);
  return {.call = [=] { sum(x); }, .mbyte = mbytes(a, 1)};
}

Operation update(const Arguments& a) {
  const Device device = a.machine.device();
  const ParameterUpdate parameter{
      .gradient = rows_of(a, 1), .value = rows_of(a, 2), .moments = {rows_of(a, 3), rows_of(a, 4)}};
  const Tensor scalars = Tensor::ones({UpdateScalar::count}, DType::f64, device);
  return {.call =
              [=] {
                adamw({.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1},
                      std::span(&parameter, 1), scalars);
              },
          .mbyte = mbytes(a, 7)};
}

std::map<std::string, std::function<Operation(const Arguments&)>> operations() {
  return {{"product", product},
          {"copy", copy},
          {"add", add_two},
          {"rms_norm", normalise},
          {"rms_norm_backward", normalise_backward},
          {"rope", rotate},
          {"polar", directions},
          {"swiglu", gated},
          {"sum", total},
          {"adamw", update}};
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  std::vector<std::string> names;
  for (const auto& [name, make] : operations()) names.push_back(name);
  CLI::App app{"Times one operation on large operands."};
  app.add_option("--operation", a.operation)->check(CLI::IsMember(names));
  app.add_option("--n", a.n, "rows of square matrices; other operands have as many elements");
  app.add_option("--time-s", a.time_s, "time calls for at least this long, and ten of them");
  add_machine_options(app, a.machine);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return a;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  const Operation operation = operations().at(a.operation)(a);
  const auto call = [&] {
    operation.call();
    wait_for(a.machine.device());
  };
  time_calls(call, 0, 3);
  const std::vector<double> ms = time_calls(call, a.time_s, 10);
  fmt::print(R"({{"name": "Mobius", "operation": "{}", "precision": "{}", "n": {}, "ms": {:.4f}, )"
             R"("ms_min": {:.4f}, "gflop": {:.3f}, "mbyte": {:.3f}}})"
             "\n",
             a.operation, a.machine.precision_name(), a.n, ms[ms.size() / 2], ms.front(),
             operation.gflop, operation.mbyte);
}
