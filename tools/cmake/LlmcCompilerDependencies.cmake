# SPDX-License-Identifier: Apache-2.0
#
# What only the compiler needs. Everything must be installed or prepared by
# tools/setup beforehand: nothing is downloaded while CMake runs.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
find_package(Protobuf REQUIRED) # before ONNX, in module mode: defines protobuf::libprotobuf
set(LLMC_ONNX_PREFIX "${PROJECT_SOURCE_DIR}/.cache/onnx" CACHE PATH "Where tools/setup installed the ONNX library")
find_package(ONNX REQUIRED CONFIG PATHS "${LLMC_ONNX_PREFIX}" NO_DEFAULT_PATH)
find_package(TBB REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)

add_library(llmc_mlir INTERFACE)
target_include_directories(llmc_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_compile_definitions(llmc_mlir INTERFACE ${LLVM_DEFINITIONS_LIST})
target_compile_options(llmc_mlir INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions> -Wno-unused-parameter)
target_link_libraries(llmc_mlir INTERFACE MLIR LLVM)

# llmc_add_dialect(NAME TD ...): generates ops, types, attributes and enums of
# the dialect described by TD into the build folder; target NAME_gen.
function(llmc_add_dialect name td dialect)
  set(LLVM_TARGET_DEFINITIONS ${td})
  get_filename_component(stem ${td} NAME_WE)
  # tablegen takes its -I flags from this directory property.
  include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${PROJECT_SOURCE_DIR})
  mlir_tablegen(${stem}.h.inc -gen-op-decls -dialect=${dialect})
  mlir_tablegen(${stem}.cpp.inc -gen-op-defs -dialect=${dialect})
  mlir_tablegen(${stem}Dialect.h.inc -gen-dialect-decls -dialect=${dialect})
  mlir_tablegen(${stem}Dialect.cpp.inc -gen-dialect-defs -dialect=${dialect})
  mlir_tablegen(${stem}Enums.h.inc -gen-enum-decls)
  mlir_tablegen(${stem}Enums.cpp.inc -gen-enum-defs)
  mlir_tablegen(${stem}Attrs.h.inc -gen-attrdef-decls -attrdefs-dialect=${dialect})
  mlir_tablegen(${stem}Attrs.cpp.inc -gen-attrdef-defs -attrdefs-dialect=${dialect})
  mlir_tablegen(${stem}Types.h.inc -gen-typedef-decls -typedefs-dialect=${dialect})
  mlir_tablegen(${stem}Types.cpp.inc -gen-typedef-defs -typedefs-dialect=${dialect})
  add_public_tablegen_target(${name}_gen)
endfunction()
