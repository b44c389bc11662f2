# MOBIUS_CUDA: AUTO builds the CUDA backend if possible, ON requires it, OFF omits it.
mobius_auto_option(MOBIUS_CUDA "CUDA backend")
if(MOBIUS_CUDA STREQUAL "ON")
  message(FATAL_ERROR "MOBIUS_CUDA=ON: this version of Mobius has no CUDA backend; use AUTO or OFF")
endif()
