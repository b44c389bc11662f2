#include "core/error.h"
#include "tests/golden/operations.h"

namespace mobius::golden {

namespace {

template <class Map>
const auto& at(const Map& map, const std::string& name) {
  const auto found = map.find(name);
  if (found == map.end()) throw Error("golden: the case has no '{}'", name);
  return found->second;
}

}  // namespace

Arguments::Arguments(const GoldenCase& golden, DType dtype, MatmulPrecision products)
    : golden_(golden), dtype_(dtype), products_(products) {
  for (const auto& [name, tensor] : golden.inputs) {
    const bool is_real = is_floating(tensor.dtype());
    inputs_.emplace(name, Variable(is_real ? tensor.to(dtype) : tensor, is_real));
  }
}

const Variable& Arguments::operator[](const std::string& input) const { return at(inputs_, input); }

double Arguments::number(const std::string& attribute) const {
  return std::get<double>(at(golden_.attributes, attribute));
}

std::int64_t Arguments::integer(const std::string& attribute) const {
  return static_cast<std::int64_t>(number(attribute));
}

const std::string& Arguments::text(const std::string& attribute) const {
  return std::get<std::string>(at(golden_.attributes, attribute));
}

void Arguments::load(const std::string& input, Variable parameter, std::int64_t first_row) {
  const Tensor& value = (*this)[input].data();
  parameter.mutable_data().slice(0, first_row, first_row + value.size(0)).copy_from(value);
  places_.emplace(input, Place{parameter, first_row});
}

Tensor Arguments::gradient(const std::string& input) const {
  const Variable& leaf = (*this)[input];
  const auto place = places_.find(input);
  const Tensor& grad = place == places_.end() ? leaf.grad() : place->second.parameter.grad();
  if (!grad.defined()) return leaf.data().zeros_like();
  if (place == places_.end()) return grad;
  const std::int64_t first = place->second.first_row;
  return grad.slice(0, first, first + leaf.size(0));
}

}  // namespace mobius::golden
