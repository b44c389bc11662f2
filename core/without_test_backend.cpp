// Linked where the program does not define test_backend() itself. It stands alone in this file: a
// linker takes a file of a library whole, or leaves it out whole.
#include "core/backend.h"

namespace mobius {

Backend* test_backend(int /*index*/) { return nullptr; }

}  // namespace mobius
