# Defines LAPACKE::lapacke: LAPACK's interface for C. Debian's lapacke has no package for CMake.
find_path(LAPACKE_INCLUDE_DIR lapacke.h)
find_library(LAPACKE_LIBRARY lapacke)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LAPACKE REQUIRED_VARS LAPACKE_LIBRARY LAPACKE_INCLUDE_DIR)
mark_as_advanced(LAPACKE_INCLUDE_DIR LAPACKE_LIBRARY)

if(LAPACKE_FOUND AND NOT TARGET LAPACKE::lapacke)
  add_library(LAPACKE::lapacke UNKNOWN IMPORTED)
  set_target_properties(LAPACKE::lapacke PROPERTIES
    IMPORTED_LOCATION ${LAPACKE_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${LAPACKE_INCLUDE_DIR})
endif()
