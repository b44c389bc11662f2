# MOBIUS_CUDA: AUTO builds the CUDA backend where it can, ON demands it, OFF leaves it out.
set(MOBIUS_CUDA AUTO CACHE STRING "CUDA backend: AUTO, ON or OFF")
set_property(CACHE MOBIUS_CUDA PROPERTY STRINGS AUTO ON OFF)

if(NOT MOBIUS_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "MOBIUS_CUDA: expected AUTO, ON or OFF, got '${MOBIUS_CUDA}'")
endif()
if(MOBIUS_CUDA STREQUAL "ON")
  message(FATAL_ERROR "MOBIUS_CUDA=ON: this version of Mobius has no CUDA backend; use AUTO or OFF")
endif()
