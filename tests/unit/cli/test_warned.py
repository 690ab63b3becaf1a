import logging

import pytest

from perago.cli.warned import warnings_to


def test_warnings_are_said_once_by_whoever_is_closest(capfd: pytest.CaptureFixture[str]) -> None:
    outer: list[str] = []
    inner: list[str] = []
    logger = logging.getLogger("perago.test")

    with warnings_to(outer.append):
        logger.warning("cannot poll: %s", "locked")
        logger.info("all is well")
        with warnings_to(inner.append):
            logger.warning("inside")
        logger.error("outside")

    assert (outer, inner) == (["cannot poll: locked", "outside"], ["inside"])
    assert capfd.readouterr().err == ""
