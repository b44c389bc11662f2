include(GNUInstallDirs)

# Options shared by every target, carried by the interface library mobius_options. Of an installed Mobius, whoever links
# it gets the headers and C++20 alone.
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

# One binary serves every x86-64-v3 machine. Highway adds AVX-512 kernels beside the AVX2 ones and chooses at start;
# it takes v3 as "AVX2 is certain" only when told not to ask for AES too, and then drops all lesser targets.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(MOBIUS_X86_64 ON)
  target_compile_options(mobius_options INTERFACE $<BUILD_INTERFACE:-march=x86-64-v3>)
  target_compile_definitions(mobius_options INTERFACE $<BUILD_INTERFACE:HWY_DISABLE_PCLMUL_AES>)
endif()

target_compile_definitions(mobius_options INTERFACE $<BUILD_INTERFACE:$<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>>)

if(MOBIUS_SANITIZE)
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # GCC loses track of initialisation in instrumented code and warns inside the standard library.
  target_compile_options(mobius_options INTERFACE ${sanitize} -Wno-maybe-uninitialized)
  target_link_options(mobius_options INTERFACE ${sanitize})
endif()
