"""Pages in a real browser: every control does something, nothing fails, nothing is asked of a network."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

import engines
from treadle import planning
from treadle.api.report import report
from treadle.finder.workload import Network, allreduce_of
from treadle.topologies.topology import TopologyBuilder

pytestmark = pytest.mark.skipif(
    "Chromium" in engines.missing_engines(), reason="Chromium: needs a browser and playwright"
)

ROOM = {"width": 1300, "height": 1000}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=engines.chromium(),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield started
        started.close()


class Visit:
    """A page with all that it complains of and asks for."""

    def __init__(self, browser: Any, path: Path, fragment: str = "") -> None:
        self.page = browser.new_page(viewport=ROOM, accept_downloads=True)
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.url = path.as_uri()
        self.page.goto(self.url + fragment)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        own = [url for url in self.asked if not url.startswith(("blob:", "data:"))]
        self.page.close()
        assert not self.complaints
        assert [url.partition("#")[0] for url in own] == [self.url]

    def look(self) -> str:
        """What is seen of the fabric's panel: its classes and words."""
        return str(self.page.locator("#fabric").evaluate("node => node.outerHTML"))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    solve = planning.solve
    quick = 'ring(4, bandwidth="25GB/s")'
    trees = solve("dgx_a100:1", "allgather").plan
    made = {
        "trees": report(trees, [solve("dgx_a100:1", "allgather", algorithm="ring")], size="1M"),
        "steps": report(solve("torus:3,3", "allreduce", algorithm="bfb")),
        "routes": report(planning.routes("torus:3,3")),
        "kinds": report(solve("pods:4,32", "allgather")),
        "step": report(
            planning.train(
                "gpt2", "ring:4", mesh="dp=4", gpu="a100", schedules=("ring", "bound"), sequence=64
            )
        ),
        "design": report(
            planning.design(
                8,
                2,
                network=Network(alpha_s=1e-5, bandwidth_bytes_per_s=10**10),
                workload=allreduce_of(2**20),
                use_cache=False,
            )
        ),
        "sharded": report(planning.parallelize("gpt2", quick, gpu="a100", mesh="4", tokens=4096, gap=0.2)),
    }
    for name, page in made.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


MOST_SAVES = 8
"""Of one visit: of more downloads in a row than ten the browser asks its user."""


@pytest.mark.parametrize("name", ["trees", "steps", "routes", "kinds", "step", "sharded", "design"])
def test_every_control_works(browser: Any, pages: dict[str, Path], name: str) -> None:
    place: int | None = 0
    while place is not None:
        with Visit(browser, pages[name]) as visit:
            place = work_buttons(visit.page, place)
    if name in ("trees", "steps", "routes"):
        with Visit(browser, pages[name]) as visit:
            work_choosers(visit)


def work_buttons(page: Any, first: int) -> int | None:
    """Press the buttons from this one on; where to go on at the next visit."""
    assert page.evaluate("Number(document.documentElement.dataset.ready)") > 0
    n_saved = 0
    for place in range(first, page.locator("button").count()):
        control = page.locator("button").nth(place)
        if not control.is_visible():
            continue
        words = control.inner_text()
        if words == "Whole":
            page.get_by_role("button", name="+", exact=True).click()
        before = page.content()
        if words.startswith("Save"):
            if n_saved == MOST_SAVES:
                return place
            with page.expect_download() as download:
                control.click()
            check_file(Path(download.value.path()), download.value.suggested_filename)
            n_saved += 1
            continue
        control.click()
        if words not in ("Load", "us", "times the quickest"):  # what is chosen at first
            assert page.content() != before, words
    return None


def work_choosers(visit: Visit) -> None:
    """Choose in every list, move the slider, play and stop."""
    page = visit.page
    page.locator("#fabric button").filter(has_text=re.compile("Trees|Steps|Routes")).click()
    for place in range(page.locator("select").count()):
        chooser = page.locator("select").nth(place)
        options = chooser.locator("option").count()
        if options > 1:
            before = visit.look()
            chooser.select_option(index=options - 1)
            assert visit.look() != before
    slider = page.locator("input[type=range]")
    if int(slider.get_attribute("max")) > 0:
        whole = visit.look()
        slider.fill("0")
        assert visit.look() != whole
        page.get_by_role("button", name="Play").click()
        page.get_by_role("button", name="Stop").click()


def check_file(path: Path, name: str) -> None:
    data = path.read_bytes()
    if name.endswith(".svg"):
        root = etree.fromstring(data)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(root) > 0
    else:
        rows = list(csv.reader(io.StringIO(data.decode())))
        assert name.endswith(".csv")
        assert len(rows) > 1
        assert len({len(row) for row in rows}) == 1


def test_play_goes_hop_by_hop(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["steps"], "#show=scene") as visit:
        slider = visit.page.locator("input[type=range]")
        assert slider.input_value() == slider.get_attribute("max")
        visit.page.get_by_role("button", name="Play").click()
        assert slider.input_value() == "0"
        visit.page.wait_for_function(
            "() => { const s = document.querySelector('input[type=range]'); return s.value === s.max; }"
        )
        visit.page.get_by_role("button", name="Play").wait_for()


def test_pictures_lead_to_each_other(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["trees"]) as visit:
        page = visit.page
        page.locator("#fabric rect.pick").nth(3).click()
        assert page.get_by_label("rank", exact=True).input_value() == "3"
        page.locator("#arrivals .matrix canvas").click(position={"x": 30, "y": 5})
        assert "root=1" in page.url
        page.locator("#timeline canvas").first.click(position={"x": 5, "y": 5})
        assert page.locator("#fabric .spot").count() == 1
        page.locator("#kinds tbody tr").first.press("Enter")
        assert page.locator("#fabric .spot").count() == 1
        page.locator("#curves svg.chart").first.hover()
        told = page.locator("#curves .told").inner_text()
        assert "forestcoll" in told
        assert "ring" in told
        assert "proved bound" in told


def test_a_timeline_is_moved_and_read(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["step"], "#row=1") as visit:
        page, span = visit.page, visit.page.locator("#lanes .bar span")
        span.filter(has_text="bound").wait_for()  # painted once its size is observed, which is after the load
        page.locator("#time g.row").first.click()
        assert "ring" in span.inner_text()
        assert page.locator("#rows tr.chosen").inner_text().startswith("ring")
        page.get_by_label("timeline").select_option(index=1)
        assert "bound" in span.inner_text()
        canvas = page.locator("#lanes canvas")
        canvas.focus()
        for key in ("+", "+", "ArrowRight", "ArrowLeft", "-"):
            before = page.url
            canvas.press(key)
            assert page.url != before, key
        canvas.hover(position={"x": 400, "y": 40})
        before = page.url
        page.mouse.down()
        page.mouse.move(500, 300)
        page.mouse.up()
        assert page.url != before
        canvas.hover(position={"x": 400, "y": 40})
        before = page.url
        page.mouse.wheel(0, -100)
        page.wait_for_function("before => location.href !== before", arg=before, timeout=5000)
        page.get_by_role("button", name="Whole").click()
        told = page.locator("#lanes .told")
        box = canvas.bounding_box()
        words = set()
        for x in range(140, int(box["width"]), 60):
            canvas.hover(position={"x": x, "y": 70})
            words.add(told.inner_text())
        assert any("allreduce along dp" in one for one in words)


def test_a_design_is_looked_at(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["design"], "#node=3") as visit:
        page, told = visit.page, visit.page.locator("#ring .told")
        assert told.inner_text().startswith("n3")
        before = told.inner_text()
        page.locator("#ring g.row").first.click()
        assert told.inner_text() != before
        assert page.locator("#ring .cable.both, #ring .cable.out").count() > 0
        page.locator("#pareto g.row").last.press("Enter")
        assert "steps" in page.locator("#pareto .told").inner_text()
        assert page.locator("#pareto .mark.chosen").count() == 1
        assert "point=" in page.url
        page.locator("#racks canvas").first.press("ArrowDown")
        assert "between" in page.locator("#racks .told").inner_text()
        page.locator("#curves svg.chart").first.hover()
        assert "torus" in page.locator("#curves .told").inner_text()


def test_the_address_keeps_what_is_chosen(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["trees"], "#show=scene&root=5&frame=0&theme=dark&chart=time&root=5") as visit:
        look, ground = visit.look(), "getComputedStyle(document.body).backgroundColor"
        assert visit.page.get_by_label("rank", exact=True).input_value() == "5"
        dark = visit.page.evaluate(ground)
        visit.page.locator("#theme").click()
        assert visit.page.evaluate(ground) != dark
        address = visit.page.url
    with Visit(browser, pages["trees"], "#" + address.partition("#")[2]) as visit:
        assert visit.look() == look
        visit.page.evaluate("location.hash = '#show=nonsense&root=99999&frame=-7&scene=x&other=1'")
        visit.page.wait_for_function(
            "() => document.querySelector('#fabric .low, #fabric .full, #fabric .half')"
        )


def test_names_do_nothing(browser: Any, tmp_path: Path) -> None:
    builder = TopologyBuilder("</title><script>alert(0)</script>")
    names = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "__proto__", "=1+1"]
    for name in names:
        builder.compute(name)
    for one, other in zip(names, [*names[1:], names[0]], strict=True):
        builder.duplex(one, other, 10**9)
    path = tmp_path / "hostile.html"
    path.write_text(report(planning.solve(builder.build(), "allgather")), encoding="utf-8")
    with Visit(browser, path, "#show=scene") as visit:
        for place in range(3):
            visit.page.locator("#fabric rect.pick").nth(place).click()
            assert names[place] in visit.page.locator("#fabric .told").inner_text()
        assert visit.page.locator("img").count() == 0


@pytest.mark.parametrize("name", ["trees", "kinds", "step", "design", "sharded"])
def test_a_narrow_window_shows_all(browser: Any, pages: dict[str, Path], name: str) -> None:
    with Visit(browser, pages[name]) as visit:
        visit.page.set_viewport_size({"width": 400, "height": 800})
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 400
