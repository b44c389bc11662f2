# MOBIUS_CUDA: AUTO builds the CUDA backend where nvcc is found, ON requires it, OFF omits it. Building takes no GPU.
# Sets MOBIUS_CUDA_ENABLED.
mobius_auto_option(MOBIUS_CUDA "CUDA backend")
set(MOBIUS_CUDA_CODE "sm_80,sm_90,sm_100,compute_80" CACHE STRING
  "What the GPUs' code is compiled to; compute_80 alone, which a driver compiles at the first start, builds fastest")
set(MOBIUS_CUDA_ENABLED OFF)
set(lacking "")

if(NOT MOBIUS_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  find_program(MOBIUS_NVCC nvcc PATHS /usr/local/cuda/bin)
  # CMake would compile for a GPU of its choice; mobius_cuda_options() says for which.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  if(MOBIUS_NVCC AND NOT DEFINED CMAKE_CUDA_COMPILER)
    set(ENV{CUDACXX} ${MOBIUS_NVCC})
    check_language(CUDA)
  endif()
  if(NOT MOBIUS_NVCC AND NOT CMAKE_CUDA_COMPILER)
    set(lacking "no nvcc was found")
  elseif(NOT CMAKE_CUDA_COMPILER)
    set(lacking "${MOBIUS_NVCC} does not work with this C++ compiler")
  else()
    enable_language(CUDA)
    # Programs are linked with the shared runtime, which CUDA::cudart names, and with no other besides.
    set(CMAKE_CUDA_RUNTIME_LIBRARY None)
    find_package(CUDAToolkit)
    foreach(kind STANDARD EXTENSION)  # of C++20, which CMake 3.25 does not know of nvcc
      if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
        set(CMAKE_CUDA20_${kind}_COMPILE_OPTION -std=c++20)
      endif()
    endforeach()
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
      set(lacking "CUDA 13 is needed, and ${CMAKE_CUDA_COMPILER} is of CUDA ${CMAKE_CUDA_COMPILER_VERSION}")
    elseif(NOT TARGET CUDA::cudart)
      set(lacking "${CMAKE_CUDA_COMPILER} comes without the CUDA runtime")
    else()
      set(MOBIUS_CUDA_ENABLED ON)
    endif()
  endif()
  if(MOBIUS_CUDA_ENABLED)
    message(STATUS "CUDA: version ${CMAKE_CUDA_COMPILER_VERSION}, code for ${MOBIUS_CUDA_CODE}")
  elseif(MOBIUS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MOBIUS_CUDA=ON: ${lacking}")
  else()
    message(STATUS "CUDA: not used (${lacking}); models are trained on the CPU alone")
  endif()
endif()

# mobius_cuda_options(NAME) compiles the .cu files of a target. One pass of the front end serves all GPUs; whatever is
# linked stands in for the CUDA runtime, and the code stays readable for tools (not compressed).
function(mobius_cuda_options name)
  foreach(option --expt-relaxed-constexpr --extended-lambda -no-compress
                 "SHELL:-gencode arch=compute_80,code=[${MOBIUS_CUDA_CODE}]")
    target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${option}>")
  endforeach()
  # Version 9 of fmt takes nvcc for a compiler without constexpr.
  target_compile_definitions(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
endfunction()
