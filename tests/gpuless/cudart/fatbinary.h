// The container in which nvcc embeds the code of one source file.
#pragma once

#include <string>

namespace mobius::gpuless {

/// The PTX of a fat binary as __cudaRegisterFatBinary gets it: of its entries, the one of the
/// highest virtual architecture that a device of `capability` (80 is 8.0) can run. Throws
/// std::runtime_error, with what to do, if there is none that is not compressed.
std::string ptx_of_fat_binary(const void* wrapper, int capability);

}  // namespace mobius::gpuless
