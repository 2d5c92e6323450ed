"""A headless Chromium that opens a page, and what the page tried to load or complained about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@dataclass
class Watched:
    """What went wrong: messages of the console, exceptions, and requests for anything but the page itself."""

    messages: list[str] = field(default_factory=list[str])
    requests: list[str] = field(default_factory=list[str])


@cache
def _browser_path() -> str | None:
    """The browser of the system; None for the one that Playwright installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def opened(
    path: Path, *, scheme: Literal["light", "dark"] = "light", width: int = 1500, touch: bool = False
) -> Generator[tuple[Page, Watched]]:
    """The page of the file `path`, once its script has run. Skips the test where no browser is installed."""
    api: Any = pytest.importorskip("playwright.sync_api", reason="needs Playwright to open pages with")
    watched = Watched()
    with api.sync_playwright() as playwright:
        try:
            # Chromium refuses its sandbox to the superuser.
            options = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=_browser_path(), args=options)
        except api.Error as error:
            pytest.skip(f"no Chromium can be started here: {str(error).splitlines()[0]}")
        try:
            tab: Page = browser.new_page(
                viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=touch
            )
            tab.on("console", lambda message: watched.messages.append(message.text))
            tab.on("pageerror", lambda error: watched.messages.append(str(error)))
            tab.on("request", lambda request: watched.requests.append(request.url))
            tab.goto(path.as_uri())
            tab.wait_for_selector("html[data-ready]", timeout=120_000)
            # The first frames: sizes are known, graphs are in their place.
            tab.evaluate("() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
            yield tab, watched
        finally:
            browser.close()
