#include "core/dtype.h"

#include <array>

namespace mobius {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<DTypeInfo, 6> infos{{{DType::f32, "f32", 4},
                                          {DType::f64, "f64", 8},
                                          {DType::bf16, "bf16", 2},
                                          {DType::i32, "i32", 4},
                                          {DType::i64, "i64", 8},
                                          {DType::u8, "u8", 1}}};

const DTypeInfo& info(DType dtype) { return infos[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t size_of(DType dtype) { return info(dtype).size; }

std::string_view name_of(DType dtype) { return info(dtype).name; }

DType dtype_from_name(std::string_view name) {
  for (const DTypeInfo& entry : infos) {
    if (entry.name == name) return entry.dtype;
  }
  throw Error("dtype: no element type is called '{}' (f32, f64, bf16, i32, i64, u8)", name);
}

void throw_unsupported_dtype(std::string_view op, DType dtype) {
  throw ShapeError("{}: elements of type {} are not supported here", op, name_of(dtype));
}

}  // namespace mobius
