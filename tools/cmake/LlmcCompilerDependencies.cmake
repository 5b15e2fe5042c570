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
# The compiler's own code is a sliver of its run time (LLVM's is the rest), so -O1 halves the build
# for free.
target_compile_options(llmc_mlir INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions> -Wno-unused-parameter
  $<$<CONFIG:Release>:-O1> -Xclang -fno-pch-timestamp)
target_link_libraries(llmc_mlir INTERFACE MLIR LLVM)

# MLIR's headers cost 5 s a file to parse: they are read once, here.
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/mlir_pch.cpp" CONTENT "")
add_library(llmc_mlir_pch STATIC "${CMAKE_BINARY_DIR}/mlir_pch.cpp")
target_link_libraries(llmc_mlir_pch PUBLIC llmc_settings llmc_mlir)
target_precompile_headers(llmc_mlir_pch PRIVATE
  <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/Func/IR/FuncOps.h> <mlir/Dialect/LLVMIR/LLVMDialect.h>
  <mlir/Dialect/Math/IR/Math.h> <mlir/Dialect/SCF/IR/SCF.h> <mlir/IR/BuiltinOps.h>
  <mlir/IR/DialectImplementation.h> <mlir/IR/ImplicitLocOpBuilder.h> <mlir/IR/PatternMatch.h>
  <mlir/Pass/Pass.h> <llvm/ADT/TypeSwitch.h> <functional> <map> <string> <vector>)

# llmc_add_mlir_library(NAME SOURCES ... LINK ...): as llmc_add_library, with that header. Its
# targets must see the same definitions, so those that use other libraries' macros can't.
function(llmc_add_mlir_library name)
  llmc_add_library(${name} ${ARGN})
  target_precompile_headers(${name} REUSE_FROM llmc_mlir_pch)
endfunction()

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
