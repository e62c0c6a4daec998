"""The page of runs in a browser: the system's Chromium, without a window or a network.

`.ci/run` installs both Chromium and playwright, and fails where this file is skipped.
"""

import re
import shutil
from pathlib import Path

import pytest
from support.reported import run

from jaxproto.lab import html as page_
from jaxproto.papers import tables

NAMES = ("chromium", "chromium-browser", "google-chrome")  # as systems call it
FOUND = next(filter(None, map(shutil.which, NAMES)), None)
driver = pytest.importorskip("playwright.sync_api")
NO_BROWSER = pytest.mark.skipif(FOUND is None, reason="no Chromium on this system")
pytestmark = [NO_BROWSER, pytest.mark.long]

OLD = Path(__file__).parents[2] / "fixtures" / "run_of_03d3868"  # with a checkpoint
EVIL = "<script>alert(1)<!--"
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 400, "height": 800}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A page of all kinds of runs: two seeds, a printed number, one that goes on."""
    folder, out = (tmp_path_factory.mktemp(name) for name in ("runs", "page"))
    for seed, best in enumerate((0.6, 0.8)):
        run(folder / f"proto-seed{seed}", seed=seed, best=best, per_client=True)
    run(folder / "alone", "local", rules=("head",), best=0.5, per_client=True)
    run(folder / EVIL, "protonorm", status="")
    cells = tables.cells_of_table("tinyproto1")
    cell = next(name for name in cells if "fedproto" in name)
    made = tables.configuration("tinyproto1", cell)
    run(folder / "printed", configuration=made, rules=("head", "global"))
    html = page_.render_page([folder, OLD], "2030-01-02 03:04 UTC").html
    (out / "report.html").write_text(html, "utf-8", "backslashreplace")
    return out / "report.html"


@pytest.fixture(scope="module")
def chromium():
    with driver.sync_playwright() as play:
        started = play.chromium.launch(executable_path=FOUND, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(chromium, file):
    """Opens the page; afterwards nothing was asked for, and nothing went wrong."""
    asked, wrong, contexts = [], [], []

    def only_the_file(route):
        asked.append(route.request.url)
        mine = route.request.url.partition("#")[0] == file.as_uri()
        return route.continue_() if mine else route.abort()

    def open_(viewport=WIDE, scheme="light"):
        look = {"color_scheme": scheme, "reduced_motion": "reduce"}
        contexts.append(chromium.new_context(viewport=viewport, **look))
        contexts[-1].set_default_timeout(60_000)
        page = contexts[-1].new_page()
        page.route("**/*", only_the_file)
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda told: wrong.append(told.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda box: wrong.append(box.message))
        page.goto(file.as_uri())
        page.wait_for_selector("#plot-seconds .main-svg")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert {url for url in asked if not url.startswith("data:")} == {file.as_uri()}
    assert wrong == []


def curves(page) -> dict[str, list]:
    """Values that the figure of accuracies draws, by name of the line."""
    data = "document.getElementById('plot-curves').data"
    named = ".filter((t) => t.name && t.visible).map((t) => [t.name, t.y])"
    return dict(page.evaluate(data + named))


def test_every_figure_is_drawn(opened):
    page = opened()
    figures = page.locator(".js-plotly-plot")
    assert figures.count() == 7
    for i in range(7):
        assert figures.nth(i).locator(".main-svg").first.is_visible()
    assert page.locator("#plot-curves .scatterlayer .js-line").count() >= 3
    assert page.locator("#plot-clients .point").count() == 9
    assert page.locator("#plot-partition .heatmaplayer image").count() == 1
    assert page.locator("#plot-plane .point").count() > 4
    assert page.locator("#plot-bytes .bars path").count() >= 8


def test_rule_axis_average_and_data_set_can_be_chosen(opened):
    page = opened()
    page.select_option("select[name=dataset]", "digits")
    assert curves(page)["FedProto, digits"][-1] == pytest.approx(70)
    page.select_option("select[name=rule]", "global")
    assert curves(page)["FedProto, digits"][-1] == pytest.approx(60)
    said = page.locator("#about-curves").inner_text()
    assert "Not measured: Local (reference), digits." in said
    page.select_option("select[name=rule]", "head")
    page.select_option("select[name=against]", "bytes")
    page.select_option("select[name=average]", "client_mean")
    assert curves(page)["FedProto, digits"][-1] == pytest.approx(35)
    last = "d => d.data.findLast((t) => t.visible).x.at(-1)"
    assert page.locator("#plot-curves").evaluate(last) in (6000, 8000)
    page.select_option("select[name=against]", "round")
    page.select_option("select[name=average]", "pooled")
    page.select_option("select[name=rule]", "global")
    page.select_option("select[name=dataset]", "cifar10")
    assert not any("digits" in name for name in curves(page))
    assert any("published" in name for name in curves(page))
    end = "document.getElementById('plot-curves').data.findLast((t) => t.visible).x"
    assert page.evaluate(end) == [0, 4]  # over all rounds
    page.uncheck("input[name=published]")
    assert curves(page) and not any("published" in name for name in curves(page))


def test_methods_are_switched_by_the_keyboard(opened):
    page = opened()
    box = page.locator("#methods label", has_text="FedProto, digits").locator("input")
    box.focus()
    page.keyboard.press("Space")
    assert "FedProto, digits" not in curves(page)
    page.click("button[value=none]")
    assert curves(page) == {}
    nothing = page.locator("#plot-curves .annotation-text")
    assert nothing.text_content() == "Nothing to show for these choices"
    page.click("button[value=all]")
    assert len(curves(page)) == 3


def test_names_of_users_do_nothing_and_partitions_can_be_chosen(opened):
    page = opened()
    assert page.locator("script").count() == 9  # plotly, 7 figures and the page
    before = page.locator("#about-partition").inner_text()
    page.select_option("select[name=partition]", index=1)
    assert page.locator("#about-partition").inner_text() != before
    assert page.locator("svg script, svg a").count() == 0
    data = "document.getElementById('plot-partition').data"
    z = f"{data}.filter((t) => t.visible).map((t) => t.customdata)"
    train = page.evaluate(z)
    page.select_option("select[name=split]", "test")
    assert page.evaluate(z) != train and len(train) == 1
    assert "2 dimensions" in page.locator("#about-angles").inner_text()


def test_it_is_readable_and_links_and_labels_are_whole(opened):
    """Nothing is wider than the window; text is apart from what is behind it."""
    page = opened(NARROW, "dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    look = "['color', 'backgroundColor'].map((k) => getComputedStyle(document.body)[k])"
    fore, back = page.evaluate(look)
    axis = page.locator("#plot-curves .xtitle")
    label = axis.evaluate("e => getComputedStyle(e).fill")
    assert brightness(back) < 60 and brightness(fore) > 190
    assert brightness(label) - brightness(back) > 130
    page.emulate_media(color_scheme="light")  # while it is open
    driver.expect(axis).not_to_have_css("fill", label)
    fore, back = page.evaluate(look)
    assert brightness(fore) < 60 and brightness(back) > 190
    links = page.locator("nav a").evaluate_all("all => all.map((a) => a.hash)")
    assert len(links) == 8 and all(page.locator(link).count() == 1 for link in links)
    unnamed = "all => all.filter((e) => !e.labels.length).length"
    assert page.locator("select, input").evaluate_all(unnamed) == 0


def brightness(colour: str) -> float:
    """Mean of red, green and blue of `rgb(r, g, b)`, 0 to 255."""
    return sum(int(n) for n in re.findall(r"\d+", colour)[:3]) / 3
