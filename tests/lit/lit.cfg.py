# SPDX-License-Identifier: Apache-2.0
#
# How lit finds and runs the tests below this folder: with the programs of the
# build that configured it, never with others that happen to be on the PATH.
import os
import platform

import lit.formats

config.name = "llmc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.llmc_build_dir, "tests", "lit")

config.environment["PATH"] = os.pathsep.join(
    [config.llmc_bin_dir, config.llvm_tools_dir, config.environment["PATH"]]
)
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LLMC_CACHE_DIR"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions += [
    ("%root", config.llmc_source_dir),
    ("%python", config.python_executable),
]


def cpu_flags():
    """The instruction sets that this machine has, as the kernel names them."""
    try:
        with open("/proc/cpuinfo") as info:
            for line in info:
                if line.startswith("flags"):
                    return set(line.split(":", 1)[1].split())
    except OSError:
        pass
    return set()


# REQUIRES: in a test names one of these.
config.available_features.add(platform.machine())
for feature, flags in {
    "avx2": {"avx2", "fma", "f16c"},
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
}.items():
    if flags <= cpu_flags():
        config.available_features.add(feature)
for program in ("llmc", "llmc-opt", "llmc-run"):
    if os.path.exists(os.path.join(config.llmc_bin_dir, program)):
        config.available_features.add(program)
if config.llmc_sanitize:
    config.available_features.add("sanitized")
