# SPDX-License-Identifier: Apache-2.0
#
# Each rule is shown something that breaks it and something that keeps it.
import json
import subprocess

import pytest
from docs import TABLEGEN, TABLEGEN_INCLUDES, check_error_codes, check_head, check_links, check_records, check_words, codes_in

PAGES = {"README.md": "", "docs/errors.md": "# Errors and codes\n## LLMC1001: no `x`\n", "docs": ""}


def texts(problems):
    return [p.text for p in problems]


def records_of(tmp_path, body):
    file = tmp_path / "T.td"
    file.write_text('include "mlir/IR/OpBase.td"\ninclude "mlir/Pass/PassBase.td"\n'
                    'def T_Dialect : Dialect { let name = "t"; }\n' + body)
    dumped = subprocess.run([TABLEGEN, "--dump-json", *(f"-I{i}" for i in TABLEGEN_INCLUDES), file],
                            check=True, capture_output=True, text=True)
    return texts(check_records("T.td", json.loads(dumped.stdout)))


def test_an_op_without_words_is_found(tmp_path):
    assert records_of(tmp_path, 'def T_AOp : Op<T_Dialect, "a">;') == [
        "op T_AOp has no summary", "op T_AOp has no ```mlir example in its description"]


def test_an_op_described_by_its_base_class_is_good(tmp_path):
    body = '''class Base<string name> : Op<T_Dialect, name> {
        let summary = "A thing";
        let description = "One.\\n```mlir\\n%0 = t." # name # "\\n```\\n";
      }
      def T_AOp : Base<"a">;'''
    assert records_of(tmp_path, body) == []


def test_a_pass_must_say_what_it_needs_and_leaves(tmp_path):
    body = '''def FuseIt : Pass<"llmc-fuse-it"> {
        let summary = "Fuse it";
        let description = [{ **Needs**: x. **Example**:
          ```mlir
          t.a
          ``` }];
      }'''
    assert records_of(tmp_path, body) == ["pass FuseIt has no **Leaves** in its description"]


@pytest.mark.parametrize("file, text, count", [
    ("README.md", "[a](docs/errors.md)", 0),
    ("README.md", "[a](docs/errors.md#errors-and-codes)", 0),
    ("README.md", "[a](docs/errors.md#llmc1001-no-x)", 0),
    ("README.md", "[a](docs)", 0),
    ("README.md", "[a](https://example.com/x)", 0),
    ("README.md", "# One\n[a](#one)", 0),
    ("README.md", "```\n[a](gone.md)\n```", 0),
    ("README.md", "[a](gone.md)", 1),
    ("README.md", "![a](gone.png)", 1),
    ("README.md", "[a](docs/errors.md#gone)", 1),
    ("README.md", "[a](#gone)", 1),
])
def test_links(file, text, count):
    assert len(texts(check_links(file, text, PAGES.get))) == count


def test_a_code_must_be_documented_and_used():
    found = list(check_error_codes({"a.cpp": 'x\nfail("LLMC1002")'}, "## LLMC1001\n"))
    assert [(p.file, p.line, p.text) for p in found] == [
        ("a.cpp", 2, "LLMC1002 is not in docs/errors.md"),
        ("docs/errors.md", 1, "LLMC1001 is not used by any source")]
    assert not list(check_error_codes({"a.cpp": 'fail("LLMC1001")'}, "## LLMC1001\n"))


@pytest.mark.parametrize("text, codes", [
    ('diagnostics.error(where(x), 1020,\n  "over 1021 things");', {"LLMC1020"}),
    ('return tensorError(1050, name, "x");', {"LLMC1050"}),
    ("warning(here, bad ? 1025 : 1021, text);", {"LLMC1025", "LLMC1021"}),
    ("problemCode = 1041;", {"LLMC1041"}),
    ('emitError() << "[LLMC1099] no";', {"LLMC1099"}),
    ("int size = 1024;", set()),
    ("note(1024);", set()),
])
def test_codes_are_found_as_text_and_as_numbers(text, codes):
    assert {code for code, line in codes_in("compiler/a.cpp", text)} == codes


@pytest.mark.parametrize("file, text, count", [
    ("a.cpp", "// SPDX-License-Identifier: Apache-2.0\n", 0),
    ("tools/a", "#!/bin/bash\n# SPDX-License-Identifier: Apache-2.0\n", 0),
    ("a.txt", "anything", 0),
    ("a.cpp", "int a;", 1),
    ("a.py", "", 1),
    ("x/CMakeLists.txt", "project(x)", 1),
    ("tools/a", "#!/bin/bash\nexit", 1),
])
def test_the_licence_line(file, text, count):
    assert len(texts(check_head(file, text))) == count


@pytest.mark.parametrize("text, count", [
    ("cd " + "/".join(("", "work", "main")), 1),
    ("see /home/anna/x", 1),
    ("curl https://pypi.org/simple", 1),
    ("the KV cache of a session", 0),
    ("/".join(("build", "work", "x")) + " and $HOME/x and ./root/x", 0),
])
def test_words(text, count):
    assert len(texts(check_words("a.md", text))) == count
