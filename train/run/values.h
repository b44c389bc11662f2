// Checks of numbers that come from a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/dtype.h"

namespace mobius {

/// The first of the elements, stored one after the other, that is NaN or infinite; nothing where
/// all are finite, as those of integer types are.
std::optional<std::int64_t> find_not_finite(std::span<const std::byte> elements, DType dtype);

}  // namespace mobius
