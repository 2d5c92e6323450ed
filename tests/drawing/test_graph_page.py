"""The page with a graph before and after, as text and in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from layout_ir.algebra.format import Format
from layout_ir.drawing.compose import compose
from layout_ir.drawing.drawn_graph import DrawnEdge, DrawnGraph, DrawnNode
from layout_ir.drawing.graph_page import graph_page
from layout_ir.drawing.svg import to_svg
from tests.drawing.browser import Watched, opened
from tests.drawing.graphs import SMALL, network
from tests.drawing.test_graph_svg import STRANGE

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("fast_sugiyama", reason="needs the extra 'draw'")

BEFORE = network(60)
PICTURES = {
    name: to_svg(compose(Format.from_tag(name).bind((1, 16, 2, 2)), name))
    for name in ("nChw16c", "nchw", "nhwc")
}


class Reader(HTMLParser):
    """The elements of a page: their tags, the addresses that they name, and the text of scripts."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [
            value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")
        ]

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script":
            self.scripts.append(data)


# As text ---------------------------------------------------------------------------------------------------------


def test_the_page_names_no_address_and_forbids_requests():
    page = graph_page("small", SMALL, before=BEFORE, pictures=PICTURES)
    reader = Reader(page)
    assert reader.addresses == []
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/)", page)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy and "default-src 'none'" in policy[1] and "unsafe" not in policy[1]


def test_the_table_lists_copies_by_bytes():
    page = graph_page("small", SMALL)
    rows = re.findall(r'<tr data-n="(\d+)"><td>([^<]*)</td>', page)
    assert rows == [("2", "2.4 MB"), ("5", "1.5 kB")]
    assert ">2 copies, 2.4 MB" in page
    assert "What remains: 2 copies, 2.4 MB" in graph_page("small", SMALL, before=BEFORE)
    assert "nn.conv stem/conv to Resize neck/resize" in page


def test_negative_without_copies_there_is_no_table():
    page = graph_page("none", network(20, copies=False))
    assert "No copies." in page and "<tr data-n" not in page and ">0 copies" in page


def strange() -> DrawnGraph:
    """A chain of copies and ops in which every text is strange."""
    nodes = tuple(
        DrawnNode(name, name, "copy" if k % 2 else "op", name, name, k, name)
        for k, name in enumerate(STRANGE)
    )
    edges = tuple(DrawnEdge(a, b, a, a, a, a) for a, b in pairwise(STRANGE))
    return DrawnGraph(nodes, edges)


def test_strange_names_add_no_elements():
    plain = DrawnGraph(
        tuple(DrawnNode(str(k), "a", n.kind, "b", "c", n.nbytes, "d") for k, n in enumerate(strange().nodes)),
        tuple(DrawnEdge(str(k), str(k + 1), "v", "s", "t", f"l{k}") for k in range(len(STRANGE) - 1)),
    )
    page = graph_page("".join(STRANGE), strange(), notes=STRANGE, pictures=dict.fromkeys(STRANGE, "<svg/>"))
    page.encode("utf-8")
    expected = graph_page("plain", plain, notes=["n"] * len(STRANGE), pictures={"l0": "<svg/>"})
    assert Reader(page).tags == Reader(expected).tags
    data = json.loads(Reader(page).scripts[0])
    assert data["graphs"]["after"]["nodes"][1]["name"] == STRANGE[1]


# In a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "small.html"
    page = graph_page("small for nobody", SMALL, before=BEFORE, pictures=PICTURES, notes=["a remark"])
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture
def tab(written: Path) -> Generator[Page]:
    """The small page; at its end nothing was complained about, and nothing else was asked for."""
    with opened(written) as (tab, watched):
        yield tab
        check(watched, written)


def check(watched: Watched, path: Path) -> None:
    assert watched.messages == []
    assert [url for url in watched.requests if not url.startswith("data:")] == [path.as_uri()]


def element(graph: str, kind: Literal["n", "e"], number: int) -> str:
    return f'.pane[data-graph={graph}] [data-{kind}="{number}"]'


def centre(tab: Page, selector: str) -> tuple[float, float]:
    box: Any = tab.locator(selector).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def in_pane(tab: Page, graph: str, selector: str) -> bool:
    """Whether the middle of an element is in the window of a graph."""
    x, y = centre(tab, selector)
    box: Any = tab.locator(f".pane[data-graph={graph}] > svg").bounding_box()
    return box["x"] <= x <= box["x"] + box["width"] and box["y"] <= y <= box["y"] + box["height"]


def settle(tab: Page) -> None:
    """Waits for the next frames."""
    tab.evaluate("() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_without_a_complaint_or_a_request(written: Path, scheme: Literal["light", "dark"]):
    with opened(written, scheme=scheme) as (tab, watched):
        assert tab.title() == "small for nobody"
        assert tab.inner_text("header p") == "a remark"
        assert tab.locator(".pane:visible").count() == 2
        ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        line = tab.evaluate(
            f"getComputedStyle(document.querySelector('{element('after', 'e', 0)} path')).stroke"
        )
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
        assert line in ("rgb(8, 83, 207)", "rgb(103, 151, 251)") and (line == "rgb(8, 83, 207)") == (
            scheme == "light"
        )
        check(watched, written)


def test_hovering_a_copy_shows_its_bytes_and_reason(tab: Page):
    assert tab.locator("#tip").is_hidden()
    tab.hover(element("after", "n", 2))
    tip = tab.inner_text("#tip")
    assert "2.4 MB" in tip and "nChw16c → nchw" in tip and "the resize needs rows of channels" in tip
    tab.hover("header h1")
    assert tab.locator("#tip").is_hidden()


def test_hovering_beside_a_line_shows_its_value(tab: Page):
    box: Any = tab.locator(element("after", "e", 0) + " path").first.bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2 + 4, box["y"] + box["height"] / 2)
    assert "%x" in tab.inner_text("#tip") and "1x3x8x8 f32" in tab.inner_text("#tip")
    tab.mouse.move(box["x"] + box["width"] / 2 + 40, box["y"] + box["height"] / 2)
    assert tab.locator("#tip").is_hidden()


def test_clicking_a_row_goes_to_the_copy(tab: Page):
    tab.click('#remaining tr[data-n="5"]')
    settle(tab)
    node = element("after", "n", 5)
    assert in_pane(tab, "after", node) and "chosen" in (tab.get_attribute(node, "class") or "")
    details = tab.inner_text("#details")
    assert "1.5 kB" in details and "the caller asks for it" in details and "nchw → nhwc" in details
    # Both Formats of the change have a picture, and the browser can draw them.
    tab.wait_for_function(
        "[...document.querySelectorAll('#details img')].filter((i) => i.naturalWidth).length === 2"
    )


def test_clicking_a_copy_chooses_its_row(tab: Page):
    tab.click(element("after", "n", 2))
    assert tab.get_attribute("#remaining tr.chosen", "data-n") == "2"
    tab.click(element("after", "n", 1))
    assert tab.locator("#remaining tr.chosen").count() == 0
    assert "strides = [2, 2]" in tab.inner_text("#details")


def test_clicking_a_format_shows_its_picture_and_its_values(tab: Page):
    tab.click('#legend button:has-text("nhwc")')
    tab.wait_for_function("document.querySelector('#details img')?.naturalWidth > 0")
    shown = tab.evaluate("document.querySelectorAll('.pane[data-graph=after] .e.shown').length")
    assert shown == 1
    assert tab.locator("#large").is_hidden()
    tab.click("#details img")
    assert tab.locator("#large").is_visible()
    tab.click("#large img")
    assert tab.locator("#large").is_hidden()
    tab.click('#legend button:has-text("nhwc")')
    assert tab.evaluate("document.querySelectorAll('.e.shown').length") == 0


def test_negative_a_format_without_a_picture_shows_none(tab: Page):
    tab.click('#legend button[title="nc"]')
    assert tab.inner_text("#details h2") == "nc"
    assert tab.locator("#details img").count() == 0


def test_clicking_a_line_tells_its_ends(tab: Page):
    box: Any = tab.locator(element("after", "e", 0) + " path").first.bounding_box()
    tab.mouse.click(box["x"] + box["width"] / 2 + 2, box["y"] + box["height"] / 2)
    assert "1x3x8x8" in tab.inner_text("#details")
    tab.click('#details button:has-text("stem/conv")')
    assert tab.inner_text("#details h2") == "nn.conv stem/conv"


def test_search_finds_nodes_by_name_in_both_graphs(tab: Page):
    tab.fill("#find", "POOL")
    pools = [node for node in BEFORE.nodes if "pool" in node.name]
    assert tab.inner_text("#found") == f"{len(pools)} before, 0 after"
    assert tab.locator(".pane[data-graph=before] .n.hit").count() == len(pools)
    for _ in pools:
        tab.press("#find", "Enter")
    settle(tab)
    assert tab.inner_text("#found") == f"{len(pools)} of {len(pools)} before"
    assert in_pane(tab, "before", element("before", "n", BEFORE.numbers[pools[-1].id]))
    tab.press("#find", "Enter")
    assert tab.inner_text("#details h2") == f"nn.max_pool {pools[0].name}"


def test_negative_search_for_what_is_not_there(tab: Page):
    tab.fill("#find", "no such node")
    tab.press("#find", "Enter")
    assert tab.inner_text("#found") == "0 before, 0 after"
    assert tab.locator(".n.hit").count() == 0 and tab.locator(".n.chosen").count() == 0


def test_the_graph_moves_and_zooms(tab: Page):
    node, pane = element("after", "n", 1), ".pane[data-graph=after]"
    x, y = centre(tab, node)
    box: Any = tab.locator(f"{pane} > svg").bounding_box()
    left, top = box["x"] + 30, box["y"] + box["height"] - 60
    tab.mouse.move(left, top)
    tab.mouse.down()
    tab.mouse.move(left + 50, top - 30, steps=4)
    tab.mouse.up()
    settle(tab)
    assert centre(tab, node) == pytest.approx((x + 50, y - 30), abs=1)
    assert tab.locator(".n.chosen").count() == 0
    tab.mouse.wheel(0, 40)
    settle(tab)
    assert centre(tab, node) == pytest.approx((x + 50, y - 70), abs=1)

    def width() -> float:
        found: Any = tab.locator(node).bounding_box()
        return found["width"]

    before = width()
    tab.mouse.move(*centre(tab, node))
    tab.keyboard.down("Control")
    tab.mouse.wheel(0, -60)
    tab.keyboard.up("Control")
    settle(tab)
    assert width() > 1.2 * before
    # What is under the pointer stays there.
    assert centre(tab, node) == pytest.approx((x + 50, y - 70), abs=2)
    tab.click(f"{pane} button[value=out]")
    settle(tab)
    assert width() < 1.3 * before
    tab.focus(f"{pane} > svg")
    tab.keyboard.press("0")
    settle(tab)
    assert all(in_pane(tab, "after", element("after", "n", k)) for k in range(len(SMALL.nodes)))


def test_two_fingers_zoom(written: Path):
    with opened(written, touch=True) as (tab, watched):
        node = element("after", "n", 1)
        x, y = centre(tab, node)
        width = tab.evaluate("(s) => document.querySelector(s).getBoundingClientRect().width", node)
        session: Any = tab.context.new_cdp_session(tab)
        for kind, apart in (("touchStart", 40), ("touchMove", 50), ("touchMove", 90), ("touchEnd", 0)):
            points = [{"x": x, "y": y + 90}, {"x": x + apart, "y": y + 90}] if apart else []
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        settle(tab)
        assert (
            tab.evaluate("(s) => document.querySelector(s).getBoundingClientRect().width", node) > 1.5 * width
        )
        check(watched, written)


def test_the_strip_goes_where_it_is_clicked(tab: Page):
    last = element("before", "n", len(BEFORE.nodes) - 1)
    assert not in_pane(tab, "before", last)
    box: Any = tab.locator(".pane[data-graph=before] canvas").bounding_box()
    tab.mouse.click(box["x"] + 20, box["y"] + box["height"] - 4)
    settle(tab)
    assert in_pane(tab, "before", last)


def test_either_graph_can_be_shown_alone(tab: Page):
    tab.click("#panes button[value=before]")
    assert tab.locator(".pane[data-graph=after]").is_hidden()
    # What is chosen in the table is shown all the same.
    tab.click('#remaining tr[data-n="2"]')
    settle(tab)
    assert in_pane(tab, "after", element("after", "n", 2))


def test_negative_without_a_graph_before_there_is_nothing_to_switch(tmp_path: Path):
    path = tmp_path / "after.html"
    path.write_text(graph_page("one", SMALL), encoding="utf-8")
    with opened(path) as (tab, watched):
        assert tab.locator("#panes button").count() == 0
        assert tab.locator(".pane:visible").count() == 1
        assert "after" not in tab.locator("body").inner_text()
        check(watched, path)


def test_strange_names_run_nothing(tmp_path: Path):
    path = tmp_path / "strange.html"
    page = graph_page(
        STRANGE[0], strange(), before=strange(), notes=STRANGE, pictures=dict.fromkeys(STRANGE, "")
    )
    path.write_text(page, encoding="utf-8")
    with opened(path) as (tab, watched):
        for number in range(len(STRANGE)):
            tab.evaluate("(n) => document.querySelector('#find').value = n", STRANGE[number][:50])
            tab.locator("#find").dispatch_event("input")
            tab.press("#find", "Enter")
        for k in range(tab.locator("#legend button").count()):
            tab.locator("#legend button").nth(k).click()
        assert tab.title() == STRANGE[0]
        assert tab.evaluate("typeof hacked") == "undefined"
        check(watched, path)


def test_a_graph_of_two_thousand_nodes_can_be_searched_and_walked(tmp_path: Path):
    path = tmp_path / "large.html"
    after = network(2000, copies=False)
    path.write_text(graph_page("large", after, before=network(2000)), encoding="utf-8")
    with opened(path) as (tab, watched):
        last = after.nodes[-1]
        tab.fill("#find", last.name)
        tab.press("#find", "Enter")
        settle(tab)
        assert in_pane(tab, "after", element("after", "n", len(after.nodes) - 1))
        # What is out of sight costs nothing.
        drawn = tab.evaluate(
            "[...document.querySelectorAll('.pane[data-graph=after] .band')].filter((b) => b.style.display !== 'none')"
            ".reduce((sum, band) => sum + band.querySelectorAll('.n').length, 0)"
        )
        assert 0 < drawn < 200
        check(watched, path)


def test_it_can_be_used_on_a_small_screen(written: Path):
    with opened(written, width=420, touch=True) as (tab, watched):
        assert tab.locator(".pane:visible").count() == 1
        tab.tap('#remaining tr[data-n="2"]')
        settle(tab)
        assert in_pane(tab, "after", element("after", "n", 2))
        assert tab.evaluate("document.documentElement.scrollWidth") <= 420
        check(watched, written)
