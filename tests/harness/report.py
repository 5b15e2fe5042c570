# SPDX-License-Identifier: Apache-2.0
#
# Counts what test programs reported. Whatever did not end well counts as
# failed, even if it reported nothing; what did not run never counts as passed.
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Counts:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)  # name, reason

    def add(self, other: "Counts") -> "Counts":
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        return self

    def check(self, name: str, ok: bool) -> bool:
        """Counts a check that no test program reports."""
        if ok:
            self.passed += 1
        else:
            self.failed.append(name)
        return ok

    def ran(self) -> int:
        return self.passed + len(self.failed)

    def seen(self) -> int:
        return self.ran() + len(self.skipped)

    def __str__(self) -> str:
        text = f"{self.passed} passed, {len(self.failed)} failed"
        return text + (f", {len(self.skipped)} skipped" if self.skipped else "")

    def explain(self) -> str:
        """The failed ones by name, and each reason for a skip with how often and where first."""
        lines = [f"FAILED {name}" for name in self.failed]
        by_reason = defaultdict(list)
        for name, reason in self.skipped:
            by_reason[reason].append(name)
        for reason, names in by_reason.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            lines.append(f"SKIPPED {names[0]}{more}: {reason}")
        return "\n".join(lines)


def read_report(path: Path, prefix: str = "") -> Counts:
    """The tests of a JUnit file, as GoogleTest, lit and pytest write it."""
    counts = Counts()
    for case in ElementTree.parse(path).iter("testcase"):
        name = prefix + ".".join(filter(None, (case.get("classname"), case.get("name"))))
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            counts.failed.append(name)
        elif skipped is not None:
            reason = skipped.get("message") or skipped.text or "no reason given"
            counts.skipped.append((name, reason.strip().splitlines()[-1]))
        elif case.get("status") == "notrun":
            counts.skipped.append((name, "disabled in its source"))
        else:
            counts.passed += 1
    return counts


def read_ctest(build: Path) -> Counts:
    """What ctest wrote to ctest.xml; an entry's single tests where test-results/ENTRY.xml has them."""
    counts = Counts()
    for entry in ElementTree.parse(build / "ctest.xml").iter("testcase"):
        name, status = entry.get("name"), entry.get("status")
        skipped = entry.find("skipped")
        message = skipped.get("message", "") if skipped is not None else ""
        if status == "disabled":
            counts.skipped.append((name, "disabled in its CMakeLists.txt"))
            continue
        if status == "notrun":
            # A missing program is "notrun" too, and that is a failure.
            if message.startswith("SKIP_"):
                counts.skipped.append((name, message))
            else:
                counts.failed.append(f"{name}: {message or 'did not run'}")
            continue
        report = build / "test-results" / f"{name}.xml"
        try:
            single = read_report(report, f"{name}: ") if report.is_file() else Counts()
        except ElementTree.ParseError as error:
            single = Counts(failed=[f"{name}: unreadable report, {error}"])
        counts.add(single)
        if status != "run" and not single.failed:
            counts.failed.append(f"{name}: ended badly, but no single test says so")
        elif not report.is_file():
            counts.check(name, status == "run")
        elif single.seen() == 0:
            counts.failed.append(f"{name}: reported no tests")
    return counts
