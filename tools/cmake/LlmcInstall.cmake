# SPDX-License-Identifier: Apache-2.0
#
# llmc_install_api(TARGET): installs the C API, which is the shared library
# TARGET and runtime/include/llmc, for CMake and pkg-config. Nothing installed
# names the prefix, so that it can be moved.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

function(llmc_install_api target)
  set(package "${CMAKE_INSTALL_LIBDIR}/cmake/Llmc")
  target_include_directories(${target} INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  set_target_properties(${target} PROPERTIES EXPORT_NAME llmc)
  install(TARGETS ${target} EXPORT LlmcTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/runtime/include/llmc" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(EXPORT LlmcTargets NAMESPACE llmc:: DESTINATION "${package}")

  configure_package_config_file("${PROJECT_SOURCE_DIR}/tools/cmake/LlmcConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/LlmcConfig.cmake" INSTALL_DESTINATION "${package}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/LlmcConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/LlmcConfig.cmake" "${PROJECT_BINARY_DIR}/LlmcConfigVersion.cmake"
    DESTINATION "${package}")

  file(RELATIVE_PATH LLMC_PC_TO_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" LLMC_PC_TO_PREFIX "${LLMC_PC_TO_PREFIX}")
  configure_file("${PROJECT_SOURCE_DIR}/tools/cmake/llmc.pc.in" "${PROJECT_BINARY_DIR}/llmc.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/llmc.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()
