# `cmake --install` installs the binary, the libraries and their headers, a CMake package and a pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(libraries mobius_core mobius_data mobius_autograd mobius_nn mobius_train)
foreach(library IN LISTS libraries)
  string(REPLACE "mobius_" "" folder ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${folder})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mobius
    FILES_MATCHING PATTERN "*.h" PATTERN "*.inc" PATTERN "cpu" EXCLUDE PATTERN "cuda" EXCLUDE)
endforeach()
set_target_properties(mobius_options PROPERTIES EXPORT_NAME options)

install(TARGETS ${libraries} mobius_options EXPORT mobius_targets)
if(MOBIUS_CUDA_ENABLED)
  get_target_property(cudart CUDA::cudart IMPORTED_LOCATION)
  cmake_path(GET cudart PARENT_PATH cuda_libraries)
  set_target_properties(mobius PROPERTIES INSTALL_RPATH ${cuda_libraries})
endif()
install(TARGETS mobius)
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/mobius)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mobius)
install(EXPORT mobius_targets FILE mobiusTargets.cmake NAMESPACE mobius:: DESTINATION ${package_dir})
configure_package_config_file(cmake/mobiusConfig.cmake.in ${PROJECT_BINARY_DIR}/mobiusConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mobiusConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/mobiusConfig.cmake ${PROJECT_BINARY_DIR}/mobiusConfigVersion.cmake
  cmake/FindLAPACKE.cmake cmake/FindOneDNN.cmake cmake/FindSentencePiece.cmake
  DESTINATION ${package_dir})

# Static libraries do not record their dependencies, so pkg-config lists them.
get_target_property(onednn DNNL::dnnl IMPORTED_LOCATION)
get_target_property(lapacke LAPACKE::lapacke IMPORTED_LOCATION)
set(others "-lsentencepiece_train -lsentencepiece ${onednn} ${lapacke}")
foreach(path IN LISTS HDF5_C_LIBRARIES MPI_C_LIBRARIES)
  string(APPEND others " ${path}")
endforeach()
if(MOBIUS_CUDA_ENABLED)
  string(APPEND others " ${cudart} -Wl,--enable-new-dtags,-rpath,${cuda_libraries} -ldl")
endif()
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/mobius.pc.in mobius.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mobius.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
