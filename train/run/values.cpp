#include "train/run/values.h"

#include <cstring>

namespace mobius {

namespace {

// A number of IEEE 754 is not finite where all bits of its exponent are set. `Bits` is an integer
// of its size. The elements may lie anywhere.
template <typename Bits>
std::optional<std::int64_t> find(std::span<const std::byte> elements, Bits exponent) {
  const std::size_t count = elements.size() / sizeof(Bits);
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, elements.data() + i * sizeof bits, sizeof bits);
    if ((bits & exponent) == exponent) return static_cast<std::int64_t>(i);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> find_not_finite(std::span<const std::byte> elements, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return find<std::uint32_t>(elements, 0x7f800000u);
    case DType::f64:
      return find<std::uint64_t>(elements, 0x7ff0000000000000u);
    case DType::bf16:
      return find<std::uint16_t>(elements, 0x7f80u);
    default:
      return std::nullopt;
  }
}

}  // namespace mobius
