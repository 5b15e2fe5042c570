# SPDX-License-Identifier: Apache-2.0
#
# The closing line is only worth something if a crash, a missing program and an
# empty run can't look like success.
import pytest
from report import Counts, read_ctest, read_report

GTEST = """<testsuites><testsuite name="A">
<testcase name="Good" status="run" result="completed" classname="A"/>
<testcase name="Bad" status="run" result="completed" classname="A"><failure message="1 != 2"/></testcase>
<testcase name="Skip" status="run" result="skipped" classname="A"><skipped message="f.cpp:3&#x0A;no such folder"/></testcase>
<testcase name="DISABLED_Off" status="notrun" result="suppressed" classname="A"/>
</testsuite></testsuites>"""


def ctest(tmp_path, entries, **reports):
    (tmp_path / "ctest.xml").write_text(f"<testsuite>{entries}</testsuite>")
    (tmp_path / "test-results").mkdir()
    for name, text in reports.items():
        (tmp_path / "test-results" / f"{name}.xml").write_text(text)
    return read_ctest(tmp_path)


def test_single_tests_are_counted(tmp_path):
    (tmp_path / "a.xml").write_text(GTEST)
    counts = read_report(tmp_path / "a.xml")
    assert counts.passed == 1 and counts.failed == ["A.Bad"]
    assert counts.skipped == [("A.Skip", "no such folder"), ("A.DISABLED_Off", "disabled in its source")]


def test_an_entry_with_a_report_counts_its_single_tests(tmp_path):
    counts = ctest(tmp_path, '<testcase name="a" status="fail"><failure/></testcase>', a=GTEST)
    assert str(counts) == "1 passed, 1 failed, 2 skipped"


def test_an_entry_without_a_report_counts_as_one(tmp_path):
    assert str(ctest(tmp_path, '<testcase name="a" status="run"/>')) == "1 passed, 0 failed"


@pytest.mark.parametrize("entry, report", [
    ('<testcase name="a" status="fail"><failure message=""/></testcase>', None),
    ('<testcase name="a" status="fail"><failure message=""/></testcase>', "<testsuites/>"),
    ('<testcase name="a" status="run"/>', "<testsuites/>"),
    ('<testcase name="a" status="run"/>', "<testsuites><cut off"),
    ('<testcase name="a" status="notrun"><skipped message="Unable to find executable"/></testcase>', None),
])
def test_a_bad_end_is_a_failure(tmp_path, entry, report):
    counts = ctest(tmp_path, entry, **({"a": report} if report else {}))
    assert counts.passed == 0 and len(counts.failed) == 1


def test_a_crash_after_good_tests_is_a_failure(tmp_path):
    good = '<testsuites><testcase name="Good" status="run"/></testsuites>'
    counts = ctest(tmp_path, '<testcase name="a" status="fail"><failure message=""/></testcase>', a=good)
    assert str(counts) == "1 passed, 1 failed"


def test_a_skipped_entry_keeps_its_reason(tmp_path):
    counts = ctest(tmp_path, '<testcase name="a" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>')
    assert counts.skipped == [("a", "SKIP_RETURN_CODE=77")]


def test_reasons_are_printed_once():
    counts = Counts(skipped=[("a", "no models"), ("b", "no models"), ("c", "no GPU")])
    assert counts.explain().splitlines() == ["SKIPPED a and 1 more: no models", "SKIPPED c: no GPU"]
