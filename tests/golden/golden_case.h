// Golden cases: named inputs with the outputs and gradients that a float64 reference computed from
// them. tests/golden/make_golden.py writes the files and says what a file holds.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/tensor.h"

namespace mobius::golden {

struct GoldenCase {
  std::map<std::string, std::variant<double, std::string>> attributes;
  std::map<std::string, Tensor> inputs;      // f64, i64 or u8
  std::map<std::string, Tensor> outputs;     // what is expected
  std::map<std::string, Tensor> cotangents;  // the gradients below are those of sum <output, this>
  std::map<std::string, Tensor> gradients;   // by the name of the input
};

/// Names of the cases of a file, in its order. Throws Error where it is no such file.
std::vector<std::string> case_names(const std::filesystem::path& file);
GoldenCase read_case(const std::filesystem::path& file, const std::string& name);

}  // namespace mobius::golden
