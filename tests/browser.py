"""The Temporal UI as a person uses it: Debian's Chromium, pages, buttons and dialogs.

Pages of open runs poll for ever, so a page is never waited for: only what it shows. Each thing is
done on a page of its own: one that has polled for a while may have no connection left to send with.
"""

import os
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest
from playwright.async_api import Locator, Page, async_playwright, expect

PICTURES = Path(os.environ.get("ONWARD_PICTURES", ".artefacts/browser")).absolute()
"""Folder that pictures of pages go to."""
_WIDTH, _LIST_HEIGHT = 1366, 800
_RUN_HEIGHT = 1200
"""Of a run's page: what of its timeline is out of sight is not drawn."""
_DEADLINE_MS = 30_000.0
_ROW = "workflows-summary-configurable-table-row"


def chromium() -> str:
    """Find Chromium; skips where there is none, but not in CI, where nobody would see it."""
    found = shutil.which("chromium")
    if found is None and os.environ.get("CI"):
        pytest.fail("no chromium on PATH: apt-get install chromium")
    return found or pytest.skip("NOT TESTED IN A BROWSER: no chromium; apt-get install chromium")


@asynccontextmanager
async def temporal_ui(url: str) -> AsyncGenerator["TemporalUI"]:
    """Open the UI at `url` in a browser of its own."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium())
        page = await browser.new_page()
        page.set_default_timeout(_DEADLINE_MS)
        expect.set_options(timeout=_DEADLINE_MS)
        yield TemporalUI(page, f"{url}/namespaces/default/workflows")
        await browser.close()


class TemporalUI:
    """One person's browser window."""

    def __init__(self, page: Page, workflows: str) -> None:
        self.page, self._workflows = page, workflows

    async def runs(self, query: str = "") -> set[str]:
        """List the runs that a query finds, of which there must be one, as a saved link does."""
        await self._size(_LIST_HEIGHT)
        await self.page.goto(f"{self._workflows}?query={quote(query)}")
        rows = self.page.get_by_test_id(_ROW)
        await expect(rows.first).to_be_visible()
        return {await row.get_by_role("link").first.inner_text() for row in await rows.all()}

    async def filtered_by(self, *filters: str) -> None:
        """Wait until those filters stand above the list, where a person can change them."""
        for text in filters:
            await expect(self.page.get_by_role("button", name=text, exact=True)).to_be_visible()

    async def show_columns(self, *added: str, without: Sequence[str]) -> None:
        """Choose the columns of the list."""
        page = self.page
        await page.get_by_test_id("workflows-summary-table-configuration-button").click()
        for name in without:
            await page.get_by_label(f"Remove {name} column", exact=True).click()
        for name in added:
            await page.get_by_label(f"Add {name} column", exact=True).click()
        await page.get_by_test_id("drawer-close-button").click()
        await expect(page.get_by_test_id("drawer-close-button")).to_be_hidden()  # it slides away

    async def row(self, run: str) -> str:
        """Read a run's line of the list, its cells parted by blanks."""
        rows = self.page.get_by_test_id(_ROW)
        return " ".join((await rows.filter(has_text=run).inner_text()).split())

    async def timeline(self, run: str, last: str) -> list[str]:
        """Read the labels of a run's timeline once one that has `last` is there."""
        await self._open(run)
        labels = self.page.locator("li button span.rounded-full")
        await expect(labels.filter(has_text=last).first).to_be_visible()
        return [await label.inner_text() for label in await labels.all()]

    async def card(self, run: str, shows: str) -> str:
        """Read a run's current details, once they have the text `shows`."""
        await self._open(run)
        await self.page.get_by_test_id("user-metadata-tab").click()
        # The UI renders Markdown in frames of their own: the summary first, these details last.
        details = self.page.locator("iframe").last.content_frame.locator("body")
        await expect(details).to_contain_text(shows)
        return await details.inner_text()

    async def cancel(self, run: str) -> None:
        """Press "Request Cancellation", and confirm it."""
        await self._open(run)
        await self._shown(self.page.get_by_role("button", name="Request Cancellation")).click()
        await Dialog(self.page, self.page.locator("dialog[open]")).submit()

    async def say(self, run: str, kind: Literal["signal", "update"], name: str) -> "Dialog":
        """Open the dialog that sends a signal or an update, and choose which one."""
        await self._open(run)
        await self._shown(self.page.locator("[aria-controls=workflow-actions]")).click()
        for button in (f"{kind}-button", f"{kind}-select-button"):
            await self._shown(self.page.get_by_test_id(button)).click()
        named = self.page.get_by_text(name, exact=True)
        await self.page.get_by_role("option").filter(has=named).click()
        return Dialog(self.page, self.page.locator("dialog[open]"))

    async def picture(self, name: str) -> None:
        """Keep what the page looks like."""
        await self.page.screenshot(path=PICTURES / f"{name}.png")

    async def _size(self, height: int) -> None:
        await self.page.set_viewport_size({"width": _WIDTH, "height": height})

    async def _open(self, run: str) -> None:
        await self._size(_RUN_HEIGHT)
        await self.page.goto(f"{self._workflows}/{run}")

    @staticmethod
    def _shown(twins: Locator) -> Locator:
        """Pick the one that is shown: the page has a second one, for narrow windows."""
        return twins.locator("visible=true")


@dataclass(frozen=True)
class Dialog:
    """A dialog that stays open until what it sends was taken."""

    page: Page
    box: Locator

    async def submit(self, data: str = "") -> None:
        """Press the button that sends; `data`, JSON, takes the place of what is in the field."""
        if data:
            await self.box.get_by_role("textbox", name="Data").click()
            await self.page.keyboard.press("Control+A")
            await self.page.keyboard.type(data)
        await self.box.get_by_test_id("confirm-modal-button").click()

    async def refusal(self) -> str:
        """Read why it was not taken."""
        return await self.box.locator("div[role=alert]").inner_text()

    async def taken(self) -> None:
        """Wait until it was."""
        await expect(self.box).to_be_hidden()
