# SPDX-License-Identifier: Apache-2.0
#
# What tools/setup says when something is missing: the exact thing and what to
# do. Its functions run with commands that stand in for the system's.
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def setup(tmp_path, script, **commands):
    """Runs a line of shell after sourcing tools/setup; `commands` replace programs by shell bodies."""
    for name, body in commands.items():
        program = tmp_path / name.replace("_", "-")
        program.write_text(f"#!/bin/bash\n{body}\n")
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-c", f'. "{ROOT}/tools/setup"; cache="{tmp_path}"; {script}'],
                          env=environment, capture_output=True, text=True)


EVERYTHING = 'echo installed'
NOT_LLD = '[ "${@: -1}" = lld-22 ] && echo not-installed || echo installed'


def test_nothing_is_installed_when_all_is_there(tmp_path):
    result = setup(tmp_path, "install_packages tests", dpkg_query=EVERYTHING, apt_get="exit 9", sudo="exit 9")
    assert result.returncode == 0 and "packages are installed" in result.stdout


def test_only_the_missing_package_is_installed(tmp_path):
    result = setup(tmp_path, "install_packages runtime", dpkg_query=NOT_LLD, id="echo 0",
                   apt_cache="echo '  Candidate: 1.0'", apt_get=f'echo "$@" >>{tmp_path}/calls')
    assert result.returncode == 0
    assert (tmp_path / "calls").read_text().splitlines() == ["update", "install -y --no-install-recommends lld-22"]


def test_sudo_is_used_when_not_root(tmp_path):
    result = setup(tmp_path, "install_packages runtime", dpkg_query=NOT_LLD, id="echo 1000",
                   apt_cache="echo '  Candidate: 1.0'", sudo=f'echo "$@" >>{tmp_path}/calls')
    assert result.returncode == 0
    assert "apt-get install -y --no-install-recommends lld-22" in (tmp_path / "calls").read_text()


def test_without_root_and_sudo_the_command_is_named(tmp_path):
    result = setup(tmp_path, 'command() { [ "$2" != sudo ] && builtin command "$@"; }; install_packages runtime',
                   dpkg_query=NOT_LLD, id="echo 1000")
    assert result.returncode == 3
    assert "as root, run: apt-get install --no-install-recommends lld-22" in result.stderr


def test_a_package_that_no_source_offers_is_named(tmp_path):
    result = setup(tmp_path, "install_packages runtime", dpkg_query=NOT_LLD, id="echo 0",
                   apt_cache="echo '  Candidate: (none)'", apt_get="exit 0")
    assert result.returncode == 3
    assert "no package source offers: lld-22" in result.stderr and "bookworm-security" in result.stderr


def test_an_old_python_is_refused(tmp_path):
    result = setup(tmp_path, "find_python", old_python='[ "$1" = --version ] && echo Python 3.9.2; exit 1')
    assert result.returncode == 0  # the default one serves
    result = setup(tmp_path, f"LLMC_PYTHON={tmp_path}/old-python; find_python")
    assert result.returncode == 3 and "Python 3.9.2" in result.stderr and "3.11" in result.stderr


def test_a_failing_step_shows_its_log(tmp_path):
    result = setup(tmp_path, "step 'doing a thing' bash -c 'echo the reason; exit 7'")
    assert result.returncode == 3
    assert "the reason" in result.stderr and "doing a thing failed with exit code 7" in result.stderr


def test_a_step_ends_at_its_first_failure(tmp_path):
    result = setup(tmp_path, "f() { false; echo went on; }; step 'doing a thing' f; echo went on")
    assert result.returncode == 3
    assert "went on" not in result.stdout + result.stderr


def test_a_source_with_another_hash_is_refused(tmp_path):
    result = setup(tmp_path, 'fetch_onnx() { echo other >"$2"; }; install_onnx')
    assert result.returncode == 3
    assert "has SHA-256" in result.stderr and "tools/requirements.txt" in result.stderr


def test_each_group_contains_the_one_below(tmp_path):
    groups = [setup(tmp_path, f"wanted_packages {g}").stdout.split() for g in ("runtime", "compiler", "tests")]
    assert set(groups[0]) < set(groups[1]) < set(groups[2])
    assert "libmlir-22-dev" not in groups[0] and len(groups[2]) == len(set(groups[2]))
