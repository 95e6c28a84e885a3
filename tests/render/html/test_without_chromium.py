"""What becomes of the browser tests where there is no browser."""

import pytest

from tests.render.html.conftest import without_chromium


def test_with_ci_set_they_fail_and_name_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"):
        without_chromium()


@pytest.mark.parametrize("value", [None, ""])
def test_elsewhere_they_are_skipped_with_a_reason_that_names_the_package(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv("CI", raising=False)
    else:
        monkeypatch.setenv("CI", value)
    reason = "NOT TESTED.*apt-get install chromium"
    with pytest.warns(UserWarning, match=reason), pytest.raises(pytest.skip.Exception, match=reason):
        without_chromium()
