include(GoogleTest)

# mobius_library(NAME SOURCES <files> PUBLIC <targets> PRIVATE <targets>)
# Defines the static library of one folder. The files of a subfolder compile as one unit: parsing the same headers again
# took half of the build time. Kernels for several instruction sets compile separately, as Highway requires.
function(mobius_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${MOBIUS_UNITY} UNITY_BUILD_MODE GROUP)
  # GCC treats sources that compile as one unit like headers and warns of their file-local types.
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(GET source PARENT_PATH room)
    if(NOT room MATCHES "/core/cpu(/|$)")
      cmake_path(GET room FILENAME room)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${room})
    endif()
  endforeach()
  target_link_libraries(${name} PUBLIC mobius_options ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
endfunction()

# mobius_tests(NAME LABEL <label> SOURCES <files> LINK <targets> DEFINITIONS <definitions> [EACH_ISA] [EACH_DEVICE]
#              [UNDISCOVERED])
# Defines one GoogleTest binary in tests/ of the build folder. With EACH_ISA its tests run twice on x86: with the best
# kernels of the processor, and, as avx2/..., with those that every supported processor has. With EACH_DEVICE they run
# once more, as guarded/..., on the device of tests/guarded/guarded_device.h. With UNDISCOVERED only the caller runs it.
function(mobius_tests name)
  cmake_parse_arguments(arg "EACH_ISA;EACH_DEVICE;UNDISCOVERED" "LABEL" "SOURCES;LINK;DEFINITIONS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE mobius_options ${arg_LINK} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE MOBIUS_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ${arg_DEFINITIONS})
  # Full optimisation took a third of the tests' build time and saves less when they run. Every test file has its own
  # namespace, so files can compile as one unit.
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${MOBIUS_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)

  if(arg_UNDISCOVERED)
    return()
  endif()
  gtest_discover_tests(${name}
    DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS ${arg_LABEL} TIMEOUT 600)
  # gtest_discover_tests splits lists, so this sets only one variable. The others are in CMakePresets.json.
  if(arg_EACH_ISA AND MOBIUS_X86_64)
    gtest_discover_tests(${name}
      TEST_PREFIX avx2/
      DISCOVERY_MODE PRE_TEST
      PROPERTIES LABELS ${arg_LABEL} TIMEOUT 600 ENVIRONMENT MOBIUS_ISA=avx2)
  endif()
  if(arg_EACH_DEVICE)
    target_link_libraries(${name} PRIVATE guarded_device)
    gtest_discover_tests(${name}
      TEST_PREFIX guarded/
      DISCOVERY_MODE PRE_TEST
      PROPERTIES LABELS ${arg_LABEL} TIMEOUT 600 ENVIRONMENT MOBIUS_TEST_DEVICE=test)
  endif()
endfunction()
