include(GNUInstallDirs)

# The interface library mobius_options carries the options of every target. Users of an installed Mobius get only the
# headers and C++20 from it.
add_library(mobius_options INTERFACE)
target_include_directories(mobius_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/mobius>)
target_compile_features(mobius_options INTERFACE cxx_std_20)
# The new tags let LD_LIBRARY_PATH replace libraries of the folders that a program names.
target_link_options(mobius_options INTERFACE $<BUILD_INTERFACE:-Wl,--as-needed,--enable-new-dtags>)

# mobius_compile_options(OPTIONS...) adds options of the C++ compiler, which nvcc passes on for the host's part of .cu files.
function(mobius_compile_options)
  foreach(option IN LISTS ARGN)
    target_compile_options(mobius_options INTERFACE
      $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${option}>>
      $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${option}>>)
  endforeach()
endfunction()

mobius_compile_options(-Wall -Wextra -Wshadow)
# What nvcc hands to the C++ compiler is not pedantic.
target_compile_options(mobius_options INTERFACE $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wpedantic>>)

# GCC 12 reports overlapping copies inside std::string that do not exist (its bug 105329).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  mobius_compile_options(-Wno-restrict)
endif()

# One binary serves every x86-64-v3 machine. Highway compiles AVX2 and AVX-512 kernels and chooses at start. It takes
# AVX2 for granted, and drops lesser targets, only if it is told not to require AES as well.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(MOBIUS_X86_64 ON)
  mobius_compile_options(-march=x86-64-v3)
  target_compile_definitions(mobius_options INTERFACE $<BUILD_INTERFACE:HWY_DISABLE_PCLMUL_AES>)
endif()

# Its checks are no functions of a GPU.
target_compile_definitions(mobius_options INTERFACE
  $<BUILD_INTERFACE:$<$<AND:$<CONFIG:Debug>,$<COMPILE_LANGUAGE:CXX>>:_GLIBCXX_ASSERTIONS>>)

if(MOBIUS_SANITIZE)
  set(sanitize -fsanitize=address -fsanitize=undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # GCC wrongly reports uninitialised variables of the standard library in instrumented code.
  mobius_compile_options(${sanitize} -Wno-maybe-uninitialized)
  target_link_options(mobius_options INTERFACE ${sanitize})
endif()
