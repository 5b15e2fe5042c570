# SPDX-License-Identifier: Apache-2.0
#
# The project's compile settings and the helper functions with which every
# folder declares its library. A layer's libraries never get more than the
# settings given here, so that a flag has one place.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
# LLVM's libraries are not on the loader's path: installed programs look where the build found them.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(LLMC_CCACHE ccache)
if(LLMC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without these two, files that use a precompiled header would never be found in the cache.
  set(LLMC_CCACHE_COMMAND "${CMAKE_COMMAND}" -E env "CCACHE_SLOPPINESS=pch_defines,time_macros" "${LLMC_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${LLMC_CCACHE_COMMAND}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${LLMC_CCACHE_COMMAND}")
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  find_program(LLMC_LLD NAMES ld.lld-22 ld.lld)
  if(LLMC_LLD)
    add_link_options("--ld-path=${LLMC_LLD}")
  endif()
endif()

add_library(llmc_settings INTERFACE)
target_include_directories(llmc_settings INTERFACE
  "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/runtime/include" "${PROJECT_BINARY_DIR}")
target_compile_options(llmc_settings INTERFACE -Wall -Wextra $<$<BOOL:${LLMC_WERROR}>:-Werror>)
if(LLMC_SANITIZE)
  add_compile_options("-fsanitize=${LLMC_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options("-fsanitize=${LLMC_SANITIZE}")
endif()

# llmc_add_library(NAME SOURCES ... LINK ...): a static library of one layer.
function(llmc_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC llmc_settings ${ARG_LINK})
endfunction()

# llmc_add_tool(NAME SOURCES ... LINK ...): an installed program in build/bin.
function(llmc_add_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE llmc_settings ${ARG_LINK})
  install(TARGETS ${name} RUNTIME)
endfunction()

# llmc_add_test(NAME SOURCES ... LINK ...): a GoogleTest binary, one ctest entry.
# Its label is the folder of its first source below tests/unit or tests. Its single
# tests are reported in test-results/NAME.xml, where tools/test counts them.
function(llmc_add_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE llmc_settings ${ARG_LINK} GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE LLMC_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests/bin")
  add_test(NAME ${name} COMMAND ${name})
  list(GET ARG_SOURCES 0 first)
  get_filename_component(folder "${first}" ABSOLUTE)
  get_filename_component(folder "${folder}" DIRECTORY)
  file(RELATIVE_PATH label "${PROJECT_SOURCE_DIR}/tests" "${folder}")
  string(REGEX REPLACE "^unit/" "" label "${label}")
  set_tests_properties(${name} PROPERTIES
    LABELS "${label}"
    ENVIRONMENT "GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/test-results/${name}.xml"
    TIMEOUT 900)
endfunction()

# llmc_add_script_test(NAME COMMAND ...): any other ctest entry. It writes
# its single tests as JUnit XML to test-results/NAME.xml; @REPORT@ in the command
# stands for that path.
function(llmc_add_script_test name)
  cmake_parse_arguments(ARG "" "" "COMMAND" ${ARGN})
  string(REPLACE "@REPORT@" "${CMAKE_BINARY_DIR}/test-results/${name}.xml" command "${ARG_COMMAND}")
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/test-results")
  add_test(NAME ${name} COMMAND ${command})
  set_tests_properties(${name} PROPERTIES LABELS script TIMEOUT 1800)
endfunction()
