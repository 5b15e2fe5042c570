# SPDX-License-Identifier: Apache-2.0
#
# The stages of tools/test, quickest first, each with a budget. Every stage
# counts what it ran; one that ran nothing has failed.
import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, NamedTuple

from report import Counts, read_ctest, read_report

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / ".cache" / "logs"
FUZZ_SECONDS = int(os.environ.get("LLMC_FUZZ_SECONDS", "60"))
JOBS = str(os.cpu_count() or 2)

# Labels (folders below tests/unit or tests) whose tests run under each sanitizer.
ASAN_LABELS = {"core", "abi", "bundle", "device", "drivers", "exec", "llm", "capi", "cli", "onnx", "conformance"}
TSAN_LABELS = {"device", "drivers", "exec", "capi", "conformance"}

# LLVM's own libraries are not instrumented: what their inlined code poisons,
# their compiled code hands out again.
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "allow_user_poisoning=0:allocator_may_return_null=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:allocator_may_return_null=1",
}

RUNTIME_SIZE_LIMIT = 3 << 20
NEVER_IN_RUNTIME = re.compile(r"LLVM|MLIR|clang|protobuf|onnx|tbb", re.IGNORECASE)
# Part of every C++ program's system, so not counted into the runtime's size.
SYSTEM_LIBRARIES = re.compile(r"^(linux-vdso|ld-linux-[\w-]+|libc|libm|libgcc_s|libstdc\+\+|libcrypto)\.so")


def run(command, log: str, **options) -> bool:
    """Runs a command with its output in a log file; shows the end of it when the command fails."""
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"{log}.log"
    with path.open("a") as file:
        file.write(f"$ {' '.join(map(str, command))}\n")
        file.flush()
        code = subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, **options).returncode
    if code != 0:
        lines = path.read_text(errors="replace").splitlines()
        print("\n".join(lines[-60:]))
        print(f"exit code {code} from: {' '.join(map(str, command))}\nthe whole log: {path}")
    return code == 0


def cpu_seconds() -> float:
    """Of all processes that have ended; tells a slow stage from a busy machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def output(command) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def configure(preset: str, log: str, *options: str) -> bool:
    return run(["cmake", "--preset", preset, "-DLLMC_WERROR=ON", *options], log)


def ctest(build: str, log: str, *options: str) -> Counts:
    folder = ROOT / build
    shutil.rmtree(folder / "test-results", ignore_errors=True)
    (folder / "test-results").mkdir()
    (folder / "ctest.xml").unlink(missing_ok=True)
    run(["ctest", "--test-dir", folder, "-j", JOBS, "--output-on-failure", "--output-junit", folder / "ctest.xml", *options],
        log, env={**os.environ, **SANITIZER_OPTIONS})
    return read_ctest(folder)


def entries_with(build: str, labels: set[str] | None = None) -> list[str]:
    """The ctest entries of a configured build, those with one of the labels; each is named like its target."""
    found = []
    for test in json.loads(output(["ctest", "--test-dir", ROOT / build, "--show-only=json-v1"]))["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        if labels is None or labels & set(properties.get("LABELS", [])):
            found.append(test["name"])
    return found


def sanitized(preset: str, labels: set[str], *options: str) -> Counts:
    """Builds the tests with these labels under a preset's sanitizers and runs them."""
    counts, build = Counts(), f"build-{preset}"
    if not counts.check(f"configure {preset}", configure(preset, preset, *options)):
        return counts
    entries = entries_with(build, labels)
    if not counts.check(f"build {preset}", bool(entries) and run(["cmake", "--build", build, "--target", *entries], preset)):
        return counts
    return counts.add(ctest(build, preset, "-R", f"^({'|'.join(map(re.escape, entries))})$"))


def check_format() -> Counts:
    counts = Counts()
    counts.check("format", subprocess.run(["tools/format", "--check"], cwd=ROOT).returncode == 0)
    return counts


def check_lints() -> Counts:
    counts = Counts()
    for lint in ("layers", "docs"):
        counts.check(f"lint {lint}", subprocess.run([sys.executable, f"tests/lint/{lint}.py"], cwd=ROOT).returncode == 0)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "pytest.xml"
        run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "tests/lint", "tests/harness"],
            "lints")
        counts.add(read_report(report))
    return counts


def build_release() -> Counts:
    counts = Counts()
    ok = configure("release", "build") and run(["cmake", "--build", "build"], "build")
    counts.check("build release without warnings", ok)
    return counts


def run_tests() -> Counts:
    return ctest("build", "tests")


def run_asan() -> Counts:
    return sanitized("asan", ASAN_LABELS)


def run_tsan() -> Counts:
    return sanitized("tsan", TSAN_LABELS)


def run_fuzzers() -> Counts:
    """Each fuzzer for FUZZ_SECONDS from its seeds, as many at once as there are processors."""
    counts = Counts()
    ok = configure("asan", "fuzz", f"-DLLMC_FUZZ_SECONDS={FUZZ_SECONDS}")
    fuzzers = [name for name in entries_with("build-asan") if name.endswith("_fuzzer")]
    if not counts.check("build fuzzers", ok and bool(fuzzers) and run(["cmake", "--build", "build-asan", "--target", *fuzzers], "fuzz")):
        return counts
    return counts.add(ctest("build-asan", "fuzz", "-R", "_fuzzer$"))


def stripped_size(file: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "stripped"
        subprocess.run(["strip", "-o", copy, file], check=True)
        return copy.stat().st_size


def libraries_of(file: Path) -> dict[str, Path]:
    """What the loader loads for a program or library, directly or not: name -> file."""
    found = re.findall(r"^\s*(\S+) => (/\S+)", output(["ldd", file]), re.MULTILINE)
    return {name: Path(path).resolve() for name, path in found}


def check_size(counts: Counts, what: str, files: list[Path]) -> None:
    sizes = {file.name: stripped_size(file) for file in files}
    total = sum(sizes.values())
    print(f"  {what}: {total:,} bytes stripped (" + ", ".join(f"{name} {size:,}" for name, size in sizes.items()) + ")")
    counts.check(f"{what} is at most {RUNTIME_SIZE_LIMIT:,} bytes, not {total:,}", total <= RUNTIME_SIZE_LIMIT)


def run_runtime_only() -> Counts:
    """Builds the runtime with everything of the compiler hidden from CMake, and measures it."""
    counts = Counts()
    shutil.rmtree(ROOT / "build-runtime", ignore_errors=True)
    hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("LLVM", "MLIR", "Protobuf", "ONNX", "TBB")]
    ok = configure("runtime", "runtime", "-DLLMC_BUILD_TESTS=OFF", *hidden) and run(["cmake", "--build", "build-runtime"], "runtime")
    if not counts.check("build the runtime alone", ok):
        return counts
    program, library = ROOT / "build-runtime/bin/llmc-run", (ROOT / "build-runtime/lib/libllmc.so").resolve()
    for file in (program, library):
        loaded = libraries_of(file)
        foreign = [name for name in loaded if NEVER_IN_RUNTIME.search(name)]
        counts.check(f"{file.name} needs nothing of the compiler {foreign or ''}".strip(), not foreign)
        parts = [file, *(path for name, path in loaded.items() if not SYSTEM_LIBRARIES.match(name))]
        check_size(counts, f"{file.name} with its libraries", parts)
    check_size(counts, "both, without their libraries", [program, library])
    return counts


def run_install() -> Counts:
    """Installs, moves the prefix away, and builds a stranger's program against it in both documented ways."""
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        first, prefix = Path(folder) / "first", Path(folder) / "prefix"
        if not counts.check("install", run(["cmake", "--install", "build", "--prefix", first], "install")):
            return counts
        first.rename(prefix)
        source, project = "tests/install/main.c", Path(folder) / "project"
        counts.check("use through find_package",
                     run(["cmake", "-G", "Ninja", "-S", "tests/install", "-B", project, f"-DCMAKE_PREFIX_PATH={prefix}",
                          "-DCMAKE_C_COMPILER=clang-22"], "install")
                     and run(["cmake", "--build", project], "install") and run([project / "consumer"], "install"))
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "llmc"], capture_output=True, text=True,
                               env={**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}).stdout.split()
        program = Path(folder) / "plain"
        counts.check("use through pkg-config",
                     bool(flags) and run(["clang-22", "-std=c11", "-Wall", "-Werror", source, "-o", program, *flags], "install")
                     and run([program], "install", env={**os.environ, "LD_LIBRARY_PATH": str(prefix / "lib")}))
        for name in ("llmc", "llmc-opt", "llmc-run"):
            if (ROOT / "build" / "bin" / name).exists():
                counts.check(f"installed {name} starts", run([prefix / "bin" / name, "--version"], "install"))
    return counts


class Stage(NamedTuple):
    name: str
    minutes: float
    run: Callable[[], Counts]
    quick: bool = False


STAGES = [
    #     name                    min  function          quick
    Stage("format",                 1, check_format,     True),
    Stage("lints",                  1, check_lints,      True),
    Stage("build",                 20, build_release,    True),
    Stage("tests",                 15, run_tests,        True),
    Stage("address sanitizer",     15, run_asan),
    Stage("fuzzers",                8, run_fuzzers),
    Stage("thread sanitizer",       5, run_tsan),
    Stage("runtime alone",          5, run_runtime_only),
    Stage("installed",              2, run_install),
]


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/test", description="Installs what is missing, builds, and runs every test.")
    parser.add_argument("--quick", action="store_true", help="only the format check, the lints, the build and its tests")
    parser.add_argument("--only", metavar="STAGE", action="append", help="only the stage of this name; may be repeated")
    arguments = parser.parse_args()
    known = [stage.name for stage in STAGES]
    for name in arguments.only or []:
        if name not in known:
            parser.error(f"there is no stage '{name}'; there are: {', '.join(known)}")

    shutil.rmtree(LOGS, ignore_errors=True)
    total, table = Counts(), []
    for stage in STAGES:
        if arguments.only and stage.name not in arguments.only or arguments.quick and not stage.quick:
            continue
        print(f"== {stage.name} (budget {stage.minutes:g} min)", flush=True)
        start, cpu = time.monotonic(), cpu_seconds()
        try:
            counts = stage.run()
        except Exception as error:  # a stage that breaks must not hide the results of the others
            print(f"{type(error).__name__}: {error}")
            counts = Counts(failed=[f"{stage.name}: broke off with {type(error).__name__}: {error}"])
        if counts.ran() == 0:
            counts.failed.append(f"{stage.name}: ran nothing")
        minutes, cpu = (time.monotonic() - start) / 60, (cpu_seconds() - cpu) / 60
        counts = Counts(counts.passed, [f"{stage.name}: {name}" for name in counts.failed],
                        [(f"{stage.name}: {name}", reason) for name, reason in counts.skipped])
        late = "  OVER BUDGET" if minutes > stage.minutes else ""
        print(f"-- {stage.name}: {counts}; {minutes:.1f} of {stage.minutes:g} min ({cpu:.1f} min of CPU){late}", flush=True)
        table.append((stage.name, minutes, stage.minutes, cpu))
        total.add(counts)
        if stage.run is build_release and counts.failed:
            print("The build failed, so the stages that need it are left out.")
            break

    print("\nstage                 minutes  budget     CPU")
    for name, minutes, budget, cpu in table:
        print(f"{name:<20} {minutes:>8.1f} {budget:>7g} {cpu:>7.1f}")
    if explained := total.explain():
        print(explained)
    print(total)
    return 1 if total.failed or total.ran() == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
