// The operations that golden files speak about, each as a function of named inputs.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "autograd/variable.h"
#include "core/ops/matmul.h"
#include "tests/golden/golden_case.h"

namespace mobius::golden {

/// The inputs of a case, real ones in `dtype`, and its attributes. Asking for a name that the case
/// does not hold throws Error.
class Arguments {
 public:
  Arguments(const GoldenCase& golden, DType dtype, MatmulPrecision products);

  DType dtype() const { return dtype_; }
  /// What attention may round its operands to.
  MatmulPrecision products() const { return products_; }
  bool has(const std::string& input) const { return golden_.inputs.contains(input); }
  /// An input that gradients are taken in.
  const Variable& operator[](const std::string& input) const;
  /// An input without gradient: labels, a mask.
  const Tensor& tensor(const std::string& input) const { return (*this)[input].data(); }

  double number(const std::string& attribute) const;
  std::int64_t integer(const std::string& attribute) const;
  bool flag(const std::string& attribute) const { return number(attribute) != 0; }
  const std::string& text(const std::string& attribute) const;

  /// Writes the input into rows of a module's parameter, from `first_row` on; the gradient of the
  /// input is then that of these rows.
  void load(const std::string& input, Variable parameter, std::int64_t first_row = 0);
  /// The gradient of an input, after backward(); zeros where nothing depends on it.
  Tensor gradient(const std::string& input) const;

 private:
  struct Place {
    Variable parameter;
    std::int64_t first_row;
  };

  const GoldenCase& golden_;
  DType dtype_;
  MatmulPrecision products_;
  std::map<std::string, Variable> inputs_;
  std::map<std::string, Place> places_;
};

using Outputs = std::map<std::string, Variable>;

/// Empty for an operation that is not in this version.
using Operation = std::function<Outputs(Arguments&)>;

/// By the name of the golden file.
const std::map<std::string, Operation>& operations();

}  // namespace mobius::golden
