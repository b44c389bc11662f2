# Installs Mobius, builds examples/own_attention against what was installed, by CMake and by pkg-config, and trains with it.
#   cmake -DBUILD=<build folder> -DSOURCE=<repository> -DWORK=<scratch folder> -P install.cmake
function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${WORK}/prefix/bin/mobius --version)

file(COPY ${SOURCE}/examples/own_attention DESTINATION ${WORK})  # outside the tree, where no header of it is found
run(${CMAKE_COMMAND} -S own_attention -B build -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_BUILD_TYPE=Debug)
run(${CMAKE_COMMAND} --build build)

# Its kinds are trained, compared, resumed and checked like those that come with Mobius.
set(short train.max_steps=4 eval.every=2 checkpoint.every=2 train.threads=1)
run(build/own_attention compare own_attention/reverse.yaml ${short} --out runs)
foreach(name cosine softmax)
  foreach(file config.yaml metrics.jsonl summary.json checkpoints/step-00000004.h5)
    if(NOT EXISTS ${WORK}/runs/${name}/${file})
      message(FATAL_ERROR "runs/${name}/${file} is missing")
    endif()
  endforeach()
endforeach()
run(build/own_attention train runs/cosine/config.yaml train.max_steps=6 train.precision=bf16 --resume auto)
run(build/own_attention eval runs/cosine/checkpoints/step-00000006.h5)
execute_process(
  COMMAND build/own_attention config show runs/cosine/config.yaml attention.kind=cosin
  WORKING_DIRECTORY ${WORK} RESULT_VARIABLE code ERROR_VARIABLE error)
if(NOT code EQUAL 2 OR NOT error MATCHES "cosine")
  message(FATAL_ERROR "attention.kind=cosin: expected exit code 2 and a hint at cosine, got ${code}: ${error}")
endif()

find_program(pkg_config pkg-config)
if(pkg_config)
  set(ENV{PKG_CONFIG_PATH} ${WORK}/prefix/lib/pkgconfig)
  execute_process(COMMAND ${pkg_config} --cflags --libs mobius
    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(c++ own_attention/own_attention.cpp -o by_pkg_config ${flags})
  run(${WORK}/by_pkg_config config help)
endif()
