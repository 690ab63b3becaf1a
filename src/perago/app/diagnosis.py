"""What `perago doctor` looks at: one check each, and how what was measured is judged.

Invariant: a check that fails, in whatever way, is a finding and never ends the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from perago.domain.errors import PeragoError
from perago.domain.ids import BranchName
from perago.domain.staging import STAGING_PREFIX

TESTED_LAKEFS = (1, 86)
"""The lakeFS version that the tests run against."""

TESTED_CONDUCTOR = (3, 32)
"""The Conductor version that the tests run against."""

MAX_CLOCK_SKEW_SECONDS = 5.0

_NOTHING = r"(?!)"
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?")


class Verdict(StrEnum):
    """What a check came to. `SKIPPED`: it was not made, and the finding says why."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: what was found and, unless all is well, what to do."""

    name: str
    verdict: Verdict
    found: str
    advice: str | None = None

    @property
    def is_problem(self) -> bool:
        """Whether Perago cannot work like this."""
        return self.verdict is Verdict.PROBLEM


def passed(name: str, found: str) -> Check:
    """All is well."""
    return Check(name=name, verdict=Verdict.OK, found=found)


def warned(name: str, found: str, advice: str) -> Check:
    """It works, but somebody should know."""
    return Check(name=name, verdict=Verdict.WARNING, found=found, advice=advice)


def failed(name: str, found: str, advice: str | None) -> Check:
    """It does not work."""
    return Check(name=name, verdict=Verdict.PROBLEM, found=found, advice=advice)


def skipped(name: str, why: str) -> Check:
    """It was not looked at."""
    return Check(name=name, verdict=Verdict.SKIPPED, found=why)


def failed_by(name: str, error: PeragoError) -> Check:
    """A problem in the words of an error."""
    return failed(name, error.message, error.hint)


def examine(name: str, look: Callable[[], Check]) -> Check:
    """Make one check; whatever it raises is what was found."""
    try:
        return look()
    except PeragoError as error:
        return failed_by(name, error)
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        return failed(name, f"{place}{error.strerror or error}", "look at that path and its disk")
    except Exception as error:  # noqa: BLE001 - a bug in one check must not hide the others
        found = f"the check itself failed: {type(error).__name__}: {error}"
        return failed(name, found, "this is a bug in Perago: please report it")


# -- judging what was measured


def judge_version(
    name: str,
    version: str | None,
    *,
    product: str = "lakeFS",
    tested: tuple[int, int] = TESTED_LAKEFS,
) -> Check:
    """A server older than the tests' one, or of another major version, has not been tried."""
    ours = ".".join(map(str, tested))
    match = _VERSION.match(version or "")
    if match is None:
        return warned(
            name,
            f"{product} {version or 'of an unknown version'}, which is no release",
            f"Perago is tested with {product} {ours}",
        )
    found = (int(match[1]), int(match[2]))
    if found < tested:
        return warned(name, f"{product} {version} is older than {ours}", f"upgrade it to {ours}")
    if found[0] > tested[0]:
        return warned(
            name,
            f"{product} {version} has not been tried",
            f"Perago is tested with {product} {ours}; look for a newer Perago",
        )
    return passed(name, f"{product} {version}")


def judge_clock(name: str, skew_seconds: float) -> Check:
    """How far the server's clock is ahead (positive) or behind, to about a second."""
    if abs(skew_seconds) <= MAX_CLOCK_SKEW_SECONDS:
        return passed(name, "this machine and the server agree to within a second or two")
    side = "ahead of" if skew_seconds > 0 else "behind"
    return warned(
        name,
        f"the server's clock is {abs(skew_seconds):.0f} s {side} this machine's",
        "let both keep time (NTP): commits and logs of one run will seem out of order",
    )


def judge_protection(name: str, patterns: Sequence[str], branch: BranchName) -> Check:
    """Protection refuses what soft publication needs: resets of the target, writes to stagings."""
    staging = next((p for p in patterns if matches_branch(p, f"{STAGING_PREFIX}x")), None)
    if staging is not None:
        return failed(
            name,
            f"the rule {staging!r} protects staging branches: no attempt can write to one",
            f"make the rule narrower, so that it does not match {STAGING_PREFIX}*",
        )
    target = next((p for p in patterns if matches_branch(p, branch)), None)
    if target is not None:
        return failed(
            name,
            f"the rule {target!r} protects {branch}: lakeFS refuses to reset it, so an abandoned "
            "publication cannot be replaced",
            "take the branch out of the protection rules, and keep other writers away with "
            "permissions (docs/how-to/lakefs.md)",
        )
    return passed(name, f"{branch} is not protected" if patterns else "no rules")


def matches_branch(pattern: str, branch: str) -> bool:
    r"""Whether a protection rule means a branch: `*`, `?`, `[a-c]`, `[!a]`, `{a,b}`, `\x`.

    A pattern that lakeFS itself could not read matches nothing.
    """
    try:
        return re.fullmatch(_as_regex(pattern), branch, re.DOTALL) is not None
    except re.error:
        return False


def _as_regex(pattern: str) -> str:
    parts, depth, position = [], 0, 0
    while position < len(pattern):
        character = pattern[position]
        closing = pattern.find("]", position + 2)
        if character == "[" and closing > 0:
            negated, members = pattern[position + 1] == "!", pattern[position + 1 : closing]
            escaped = re.sub(r"([\\^\[\]])", r"\\\1", members.removeprefix("!"))
            parts.append(f"[{'^' if negated else ''}{escaped}]")
            position = closing
        elif character == "\\" and position + 1 < len(pattern):
            position += 1
            parts.append(re.escape(pattern[position]))
        elif character == "[":
            return _NOTHING
        elif character == "{" or (character == "}" and depth > 0):
            depth += 1 if character == "{" else -1
            parts.append("(?:" if character == "{" else ")")
        elif character == "," and depth > 0:
            parts.append("|")
        else:
            parts.append({"*": ".*", "?": "."}.get(character) or re.escape(character))
        position += 1
    return "".join(parts) + ")" * depth
