#pragma once

#include <string_view>

#include "tests/gpuless/ptx/program.h"

namespace mobius::ptx {

/// What runs a function that the system of a device provides: vprintf, __assertfail. Null for other
/// names.
Run system_call(std::string_view name);

}  // namespace mobius::ptx
