#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Checks what a reader relies on and no compiler sees: that ops and passes are
# described, links lead somewhere, error codes are documented, and every file
# says under which licence it stands.
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TABLEGEN = "/usr/lib/llvm-22/bin/llvm-tblgen"
TABLEGEN_INCLUDES = [str(ROOT), "/usr/lib/llvm-22/include"]

EXAMPLE = re.compile(r"```mlir\n.*?```", re.DOTALL)
PASS_PARTS = ("**Needs**", "**Leaves**", "**Example**")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
ERROR_CODE = re.compile(r"\bLLMC[0-9]{4}\b")
# Codes also stand as numbers: `diagnostics.error(location, 1020, ...)`, `code = 1020`.
REPORT = re.compile(r"\b\w*(?:[eE]rror|[wW]arning|fail)\([^;]*;|\b\w*[cC]ode = [^;]*;")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
NUMERIC_CODE = re.compile(r"(?<![\w.])[12][0-9]{3}(?![\w.])")
REPORTING = ("compiler/", "passes/", "codegen/", "tools/llmc/")
ERRORS_PAGE = "docs/errors.md"
SOURCES = (".c", ".h", ".cpp", ".def", ".td")
LICENSED = SOURCES + (".cmake", ".py", ".sh")
SPDX = "SPDX-License-Identifier: Apache-2.0"

# What would tie the project to one mirror or one machine.
FORBIDDEN = {
    "the address of a package registry": re.compile(
        r"\b(files\.pythonhosted\.org|pypi\.org|registry\.npmjs\.org|deb\.debian\.org|crates\.io)\b"),
    "a path of one machine": re.compile(r"(?<![\w.}/])/(work|root|home/\w+)/"),
}
MAY_NAME_THE_FORBIDDEN = {"tests/lint/docs.py", "tests/lint/docs_test.py"}


class Problem(NamedTuple):
    file: str
    line: int
    text: str

    def __str__(self):
        return f"{self.file}:{self.line}: {self.text}"


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def check_records(file: str, records: dict) -> Iterator[Problem]:
    """Ops and passes of one .td file, as `llvm-tblgen --dump-json` prints them."""
    for kind, noun in (("Op", "op"), ("PassBase", "pass")):
        for name in records["!instanceof"].get(kind, []):
            record = records[name]
            places = [place for place in record["!locs"] if place.rsplit(":", 1)[0].endswith(file)]
            if not places:
                continue  # defined in an included file, which is checked by itself
            line = int(places[-1].rsplit(":", 1)[1])
            description = record.get("description") or ""
            if not (record.get("summary") or "").strip():
                yield Problem(file, line, f"{noun} {name} has no summary")
            if not EXAMPLE.search(description):
                yield Problem(file, line, f"{noun} {name} has no ```mlir example in its description")
            for part in PASS_PARTS if noun == "pass" else ():
                if part not in description:
                    yield Problem(file, line, f"pass {name} has no {part} in its description")


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+\s+(.+?)\s*$", CODE_BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(file: str, text: str, read) -> Iterator[Problem]:
    """`read` gives the text behind a path ('' unless it is Markdown), or None when nothing is there."""
    text = CODE_BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    for match in LINK.finditer(text):
        target = match[1]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = read(str(Path(file).parent / path)) if path else text
        if other is None:
            yield Problem(file, line_of(text, match.start()), f"link to {target}, which does not exist")
        elif anchor and anchor not in anchors(other):
            yield Problem(file, line_of(text, match.start()), f"link to {target}, but there is no such heading")


def codes_in(file: str, text: str) -> Iterator[tuple[str, int]]:
    """The error codes that a source can report, each with its line."""
    for match in ERROR_CODE.finditer(text):
        yield match[0], line_of(text, match.start())
    if file.startswith(REPORTING):
        blanked = STRING.sub(lambda string: " " * len(string[0]), text)
        for report in REPORT.finditer(blanked):
            for match in NUMERIC_CODE.finditer(report[0]):
                yield f"LLMC{match[0]}", line_of(text, report.start() + match.start())


def check_error_codes(sources: dict[str, str], page: str) -> Iterator[Problem]:
    documented = {code: line_of(page, page.index(code)) for code in ERROR_CODE.findall(page)}
    used = {}
    for file, text in sources.items():
        for code, line in codes_in(file, text):
            used.setdefault(code, (file, line))
    for code in sorted(used.keys() - documented.keys()):
        yield Problem(*used[code], f"{code} is not in {ERRORS_PAGE}")
    for code in sorted(documented.keys() - used.keys()):
        yield Problem(ERRORS_PAGE, documented[code], f"{code} is not used by any source")


def check_head(file: str, text: str) -> Iterator[Problem]:
    if not (file.endswith(LICENSED) or Path(file).name == "CMakeLists.txt" or text.startswith("#!")):
        return
    lines = text.splitlines()
    first = 1 if text.startswith("#!") else 0
    if len(lines) <= first or SPDX not in lines[first]:
        yield Problem(file, first + 1, f"does not begin with the line '{SPDX}'")


def check_words(file: str, text: str) -> Iterator[Problem]:
    for what, pattern in FORBIDDEN.items():
        for match in pattern.finditer(text):
            yield Problem(file, line_of(text, match.start()), f"{match[0]} is {what}")


def check_tablegen(file: str) -> Iterator[Problem]:
    dumped = subprocess.run([TABLEGEN, "--dump-json", *(f"-I{folder}" for folder in TABLEGEN_INCLUDES), file],
                            cwd=ROOT, capture_output=True, text=True)
    if dumped.returncode != 0:
        yield Problem(file, 1, f"llvm-tblgen refuses it: {dumped.stderr.strip()}")
    else:
        yield from check_records(file, json.loads(dumped.stdout))


def read_target(path: str) -> str | None:
    target = (ROOT / path).resolve()
    if not target.exists() or not target.is_relative_to(ROOT):
        return None
    return target.read_text() if target.suffix == ".md" else ""


def tracked_texts() -> dict[str, str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    texts = {}
    for file in filter(None, listed.split("\0")):
        try:
            texts[file] = (ROOT / file).read_text()
        except (UnicodeDecodeError, FileNotFoundError):
            pass  # binary, or removed and not yet committed
    return texts


def main() -> int:
    texts, found = tracked_texts(), []
    for file, text in texts.items():
        found += check_head(file, text)
        if file not in MAY_NAME_THE_FORBIDDEN:
            found += check_words(file, text)
        if file.endswith(".md"):
            found += check_links(file, text, read_target)
        if file.endswith(".td"):
            found += check_tablegen(file)
    sources = {file: text for file, text in texts.items() if file.endswith(SOURCES) and not file.startswith("tests/")}
    found += check_error_codes(sources, texts.get(ERRORS_PAGE, ""))
    for problem in found:
        print(problem)
    print(f"docs: {len(texts)} files, {len(found)} problems")
    return 1 if found or not texts else 0


if __name__ == "__main__":
    sys.exit(main())
