// The options that several benchmarks have.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "core/device.h"
#include "core/ops/matmul.h"

namespace mobius {

/// What computes, and how products round.
struct Machine {
  std::string device_name = "cpu";
  MatmulPrecision precision = MatmulPrecision::full;

  Device device() const { return device_from_name(device_name); }
  const char* precision_name() const { return precision == MatmulPrecision::bf16 ? "bf16" : "f32"; }
};

/// Adds --device and --precision.
inline void add_machine_options(CLI::App& app, Machine& machine) {
  app.add_option("--device", machine.device_name, "train.device: cpu (default) or cuda");
  const std::map<std::string, MatmulPrecision> precisions = {{"f32", MatmulPrecision::full},
                                                             {"bf16", MatmulPrecision::bf16}};
  app.add_option("--precision", machine.precision, "train.precision: f32 (default) or bf16")
      ->transform(CLI::CheckedTransformer(precisions));
}

}  // namespace mobius
