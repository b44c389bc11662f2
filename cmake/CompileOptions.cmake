include(GNUInstallDirs)

# The interface library mobius_options carries the options of every target. Users of an installed Mobius get only the
# headers and C++20 from it.
add_library(mobius_options INTERFACE)
target_include_directories(mobius_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/mobius>)
target_compile_features(mobius_options INTERFACE cxx_std_20)
target_link_options(mobius_options INTERFACE $<BUILD_INTERFACE:-Wl,--as-needed>)
target_compile_options(mobius_options INTERFACE $<BUILD_INTERFACE:-Wall$<SEMICOLON>-Wextra$<SEMICOLON>-Wpedantic$<SEMICOLON>-Wshadow>)

# GCC 12 reports overlapping copies inside std::string that do not exist (its bug 105329).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(mobius_options INTERFACE $<BUILD_INTERFACE:-Wno-restrict>)
endif()

# One binary serves every x86-64-v3 machine. Highway compiles AVX2 and AVX-512 kernels and chooses at start. It takes
# AVX2 for granted, and drops lesser targets, only if it is told not to require AES as well.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(MOBIUS_X86_64 ON)
  target_compile_options(mobius_options INTERFACE $<BUILD_INTERFACE:-march=x86-64-v3>)
  target_compile_definitions(mobius_options INTERFACE $<BUILD_INTERFACE:HWY_DISABLE_PCLMUL_AES>)
endif()

target_compile_definitions(mobius_options INTERFACE $<BUILD_INTERFACE:$<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>>)

if(MOBIUS_SANITIZE)
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # GCC wrongly reports uninitialised variables of the standard library in instrumented code.
  target_compile_options(mobius_options INTERFACE ${sanitize} -Wno-maybe-uninitialized)
  target_link_options(mobius_options INTERFACE ${sanitize})
endif()
