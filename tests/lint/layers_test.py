# SPDX-License-Identifier: Apache-2.0
#
# A lint that finds nothing looks like a clean project, so each rule is shown
# an include that breaks it and one that keeps it.
import pytest
from layers import MAY_INCLUDE, check_text, layer_of


def problems(file, line, exists=lambda path: True):
    return [p.text for p in check_text(file, f"// a comment\n{line}\n", exists)]


@pytest.mark.parametrize("file, line", [
    ("runtime/core/A.h", '#include "runtime/bundle/BundleReader.h"'),
    ("runtime/abi/A.h", '#include "runtime/core/Status.h"'),
    ("runtime/device/A.h", '#include "runtime/bundle/BundleReader.h"'),
    ("runtime/exec/A.cpp", '#include "runtime/drivers/Drivers.h"'),
    ("runtime/exec/A.cpp", '#include "runtime/llm/Session.h"'),
    ("runtime/llm/A.cpp", '#include "llmc/llmc.h"'),
    ("runtime/llm/A.cpp", '#include "mlir/IR/Builders.h"'),
    ("runtime/llm/A.cpp", "#include <llvm/ADT/StringRef.h>"),
    ("runtime/bundle/A.cpp", "#include <google/protobuf/message.h>"),
    ("runtime/core/A.cpp", '#include "compiler/ir/WeightStore.h"'),
    ("compiler/ir/A.cpp", '#include "compiler/target/Target.h"'),
    ("compiler/ir/A.td", 'include "passes/Passes.td"'),
    ("compiler/ir/A.cpp", "#  include <onnx/onnx_pb.h>"),
    ("compiler/onnx/A.cpp", '#include "compiler/bundle/ArchiveWriter.h"'),
    ("compiler/bundle/A.cpp", '#include "runtime/core/Status.h"'),
    ("compiler/driver/A.cpp", '#include "passes/Passes.h"'),
    ("compiler/driver/A.cpp", '#include "codegen/Targets.h"'),
    ("passes/A.cpp", '#include "codegen/Targets.h"'),
    ("passes/A.cpp", '#include "runtime/core/Status.h"'),
    ("codegen/A.cpp", '#include "passes/Passes.h"'),
    ("codegen/A.cpp", '#include "compiler/onnx/OnnxReader.h"'),
    ("codegen/A.cpp", '#include "tools/cli/Flags.h"'),
    ("tools/llmc-run/main.cpp", '#include "compiler/driver/Compiler.h"'),
    ("tools/llmc/main.cpp", '#include "tests/Anything.h"'),
    ("scripts/A.cpp", '#include "runtime/core/Status.h"'),
])
def test_a_bad_include_is_found(file, line):
    assert len(problems(file, line)) == 1


@pytest.mark.parametrize("file, line", [
    ("runtime/core/A.cpp", '#include "runtime/core/A.h"'),
    ("runtime/core/A.cpp", "#include <string>"),
    ("runtime/core/A.cpp", "#include <fmt/format.h>"),
    ("runtime/capi/A.cpp", '#include "llmc/llmc.h"'),
    ("runtime/llm/A.cpp", '#include "runtime/exec/Executor.h"'),
    ("compiler/ir/A.cpp", '#include "mlir/IR/Builders.h"'),
    ("compiler/onnx/A.cpp", '#include "onnx/onnx_pb.h"'),
    ("compiler/driver/A.cpp", '#include "compiler/onnx/OnnxReader.h"'),
    ("passes/A.cpp", '#include "compiler/target/Target.h"'),
    ("codegen/A.cpp", '#include "runtime/abi/KernelAbi.h"'),
    ("codegen/cpu/A.cpp", '#include "lld/Common/Driver.h"'),
    ("tools/llmc/main.cpp", '#include "codegen/Targets.h"'),
    ("tests/unit/A.cpp", '#include "runtime/exec/Executor.h"'),
    ("runtime/core/A.cpp", '// #include "mlir/IR/Builders.h"'),
])
def test_a_good_include_is_kept(file, line):
    assert problems(file, line) == []


def test_an_include_relative_to_its_own_folder_is_found():
    assert "root" in problems("runtime/core/A.cpp", '#include "A.h"')[0]


def test_a_missing_file_is_found_unless_generated():
    nothing = lambda path: False
    assert "does not exist" in problems("runtime/core/A.cpp", '#include "runtime/core/Gone.h"', nothing)[0]
    assert problems("passes/A.cpp", '#include "passes/Passes.h.inc"', nothing) == []


def test_the_line_is_named():
    assert next(check_text("passes/A.cpp", '\n\n#include "codegen/A.h"\n', lambda p: True)).line == 3


def test_the_longest_layer_counts():
    assert layer_of("tools/llmc-run/main.cpp") == "tools/llmc-run"
    assert layer_of("README.md") is None


def test_the_table_has_no_cycle():
    def reach(layer, path):
        assert layer not in path, f"cycle: {path + [layer]}"
        for below in MAY_INCLUDE[layer] - {layer}:
            reach(below, path + [layer])

    for layer in set(MAY_INCLUDE) - {"tools", "tools/llmc-run"}:
        reach(layer, [])
