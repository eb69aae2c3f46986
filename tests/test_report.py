"""Reports: one file, complete, escaped, without addresses or scripts; opened in a browser."""

import os
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    roc_auc_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lasn import LASNClassifier, LASNClassifierCV, LASNRegressor, certify
from lasn.report import html_report, measures, write_report
from lasn.report.charts import (
    Axis,
    Bars,
    Chart,
    Dots,
    Line,
    Rule,
    Whiskers,
    linear_ticks,
    number,
    tick_labels,
)

VOID = {"meta", "link"}
NEWTON = {"chart-gradient", "chart-objective", "chart-active", "chart-cg"}
CLASSES = {*NEWTON, "chart-margins", "chart-roc", "chart-pr", "chart-spectrum"}


class Page(HTMLParser):
    """Elements with their attributes; an error if they are not nested as they should be."""

    def __init__(self, html):
        super().__init__()
        self.open, self.elements, self.text = [], [], ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def charts(self):
        return {attributes["id"] for attributes in self.all("figure")}


@pytest.fixture(scope="module")
def tuned(binary):
    X, y = binary
    model = LASNClassifierCV([1.0, 10.0], [0.1], [10, 20], random_state=0)
    return make_pipeline(StandardScaler(), model).fit(X, np.where(y == 1, "yes", "no"))


@pytest.fixture(scope="module")
def pages(tuned, binary, three_classes, regression):
    """A report of each kind: its HTML and the charts that belong in it."""
    X, y = binary
    several = LASNClassifier(20, loss="log_loss", random_state=0).fit(*three_classes)
    hinge = LASNClassifier(20, random_state=0).fit(X, y)
    linear = LASNClassifier(kernel="linear").fit(X, y)
    numbers = LASNRegressor(20, random_state=0).fit(*regression)
    labels = np.where(y == 1, "yes", "no")
    return {
        "tuned": (
            html_report(tuned, X, labels),
            {*CLASSES, "chart-calibration", "chart-landmarks"},
        ),
        "several classes": (html_report(several, *three_classes), {*CLASSES, "chart-calibration"}),
        "no probabilities": (html_report(hinge, X, y), CLASSES),
        "linear": (html_report(linear, X, y), CLASSES - {"chart-spectrum"}),
        "numbers": (
            html_report(numbers, *regression),
            {*NEWTON, "chart-fit", "chart-residuals", "chart-spectrum"},
        ),
    }


KINDS = ["tuned", "several classes", "no probabilities", "linear", "numbers"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_is_whole_and_needs_nothing(pages, kind):
    html, charts = pages[kind]
    page = Page(html)
    assert page.charts == charts
    assert len(page.all("svg")) == len(charts)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert not re.search(r"https?:|//|url\(|@import", html.replace("<!DOCTYPE html>", ""))
    assert page.all("script") == []
    assert [a["href"] for a in page.all("link")] == ["data:,"]
    for link in page.all("a"):
        assert link["href"].removeprefix("#") in ids
    assert "nan" not in re.findall(r'(?:x|y|cx|cy|width|height|points|d)="([^"]*)"', html)
    assert "NaN" not in html


@pytest.mark.parametrize("kind", KINDS)
def test_charts_are_there_for_those_who_do_not_see_them(pages, kind):
    html, charts = pages[kind]
    page = Page(html)
    ids = {attributes.get("id") for _, attributes in page.elements}
    for svg in page.all("svg"):
        assert svg["role"] == "img"
        assert set(svg["aria-labelledby"].split()) <= ids
    assert len(page.all("summary")) == len(charts) + 1  # numbers of each, and other parameters
    for region in page.all("div"):
        if region.get("class") == "scroll":
            assert region["tabindex"] == "0"
            assert region["aria-label"]
    assert page.all("html")[0]["lang"] == "en"
    assert {heading["scope"] for heading in page.all("th")} == {"row", "col"}


def test_what_people_write_is_escaped(binary):
    X, y = binary
    bad = "<script>alert('x')</script>&\""
    labels = np.where(y == 1, bad, "no")
    html = html_report(LASNClassifier(10, random_state=0).fit(X, labels), X, labels, title=bad)
    assert "<script" not in html
    assert bad in Page(html).text


def test_numbers_are_scikit_learns(binary, tuned):
    X, y = binary
    labels = np.where(y == 1, "yes", "no")
    found = measures.predict_rows(tuned, X, labels)
    classes = tuned.classes_
    scores = tuned.decision_function(X)
    roc, recall = measures.curves(found, classes)
    assert roc[0].area == pytest.approx(roc_auc_score(y, scores))
    assert recall[0].area == pytest.approx(average_precision_score(y, scores))
    probabilities = tuned.predict_proba(X)
    metrics = measures.log_loss_and_brier(found, classes)
    assert metrics["log loss"] == pytest.approx(log_loss(y, probabilities))
    brier = 2 * brier_score_loss(y, probabilities[:, 1])
    assert metrics["Brier score"] == pytest.approx(brier)
    text = Page(html_report(tuned, X, labels)).text
    counts = confusion_matrix(labels, tuned.predict(X))
    assert f"true \\ predictednoyesno{counts[0, 0]}{counts[0, 1]}yes" in text


def test_margins_are_negative_where_rows_are_misclassified(binary, three_classes):
    for X, y in (binary, three_classes):
        model = LASNClassifier(5, C=0.01, random_state=0).fit(X, y)
        found = measures.predict_rows(model, X, y)
        margins = measures.margins(found, model.classes_)
        np.testing.assert_array_equal(margins < 0.0, model.predict(X) != y)
        np.testing.assert_allclose(np.abs(margins) >= measures.certainty(found) - 1e-12, True)


def test_reliability_of_probabilities_that_are_right(rng):
    p = rng.uniform(size=20_000)
    truth = (rng.uniform(size=len(p)) < p).astype(int)
    found = measures.Predictions(truth, (p > 0.5).astype(int), p, np.column_stack([1 - p, p]))
    bins = measures.reliability(found, np.array([0, 1]))
    assert sum(one["rows"] for one in bins) == len(p)
    assert len(bins) == 10
    assert all(abs(one["share"] - one["probability"]) < 0.05 for one in bins)


def test_curves_are_thinned_but_keep_their_ends(rng):
    truth = rng.randint(2, size=5000)
    found = measures.Predictions(truth, truth, rng.normal(size=5000) + truth)
    for curves in measures.curves(found, np.array([0, 1])):
        assert len(curves[0].x) <= 203
        assert {curves[0].x[0], curves[0].x[-1]} == {0.0, 1.0}


def test_a_class_without_rows_has_no_curve(three_classes):
    X, y = three_classes
    model = LASNClassifier(10, random_state=0).fit(X, y)
    some = y != 2
    html = html_report(model, X[some], y[some])
    assert Page(html).charts == CLASSES
    one = y == 1
    assert "no class has both hits and misses" in html_report(model, X[one], y[one])


def test_many_classes_are_shown_by_their_worst(rng):
    X = rng.normal(size=(400, 3))
    y = np.arange(400) % 40
    html = html_report(LASNClassifier(20, random_state=0).fit(X, y), X, y)
    assert "Of 40 classes, the pairs that are confused most." in html
    assert "the 8 worst of 40 classes" in html


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.2, 7.9), (1e-9, 2e-9), (5.0, 5.0)])
def test_ticks_are_few_and_enclose(low, high):
    ticks = linear_ticks(low, high)
    assert 3 <= len(ticks) <= 9
    assert ticks[0] <= low <= high <= ticks[-1]
    steps = np.diff(ticks)
    np.testing.assert_allclose(steps, steps[0])


@pytest.mark.parametrize("low", [0.93, 1217.1, 123456.7, 2.5e7, 1e-9])
def test_ticks_of_a_short_axis_differ(low):
    ticks = linear_ticks(low, low * (1 + 1e-6))
    labels = tick_labels(ticks)
    assert len(set(labels)) == len(ticks)
    np.testing.assert_allclose([float(label) for label in labels], ticks, rtol=3e-7)


def test_marks_stay_on_the_paper():
    marks = [
        Line([1, 2, 3], [1e-8, 0.0, 10.0]),
        Dots([1, 2], [1.0, 2.0], 2),
        Whiskers([2], [0.5], [2.0], 3),
        Rule(y=1e-3, text="<here>"),
        Bars([1, 2, 3], [1.0, 5.0]),
    ]
    svg = Chart("c", "t", "d", Axis("x"), Axis("y", log=True), marks).svg()
    Page(svg)
    places = re.findall(r'\b(?:c?x|x1|x2)="(-?[\d.]+)"', svg)
    assert all(0 <= float(place) <= 440 for place in places)
    assert svg.count("<circle") == 4  # zero has no place on a logarithmic axis
    assert "&lt;here&gt;" in svg
    assert number(float("nan")) == "none"


def test_a_report_appears_whole_or_not_at_all(tmp_path, binary):
    X, y = binary
    model = LASNClassifier(10, random_state=0).fit(X, y)
    write_report(model, X, y, tmp_path / "r.html", title="Mine")
    assert "<h1>Mine</h1>" in (tmp_path / "r.html").read_text()
    with pytest.raises(FileNotFoundError):
        write_report(model, X, y, tmp_path / "no" / "r.html")
    assert os.listdir(tmp_path) == ["r.html"]


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(
        filter(
            None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))
        ),
        None,
    )
    if path is None:
        pytest.skip("there is no Chromium to open reports in")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["tuned", "numbers"])
def test_a_browser_shows_it(pages, tmp_path, browser, kind, width, scheme):
    html, charts = pages[kind]
    path = tmp_path / "report.html"
    path.write_text(html, encoding="utf-8")
    said, asked = [], []
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    boxes = {name: page.locator(f"#{name} svg").bounding_box() for name in charts}
    assert all(box["width"] > 250 and box["height"] > 150 for box in boxes.values())
    assert page.evaluate("document.documentElement.scrollWidth") == width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) > 384) == (scheme == "light")
    page.close()


def test_the_keyboard_reaches_every_table(pages, tmp_path, browser):
    html, charts = pages["tuned"]
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    what = "[document.activeElement.tagName, document.activeElement.textContent]"
    met = []
    for _ in range(80):
        page.keyboard.press("Tab")
        tag, text = page.evaluate(what)
        if tag == "BODY":
            break
        met.append((tag, text))
        if tag == "SUMMARY":
            page.keyboard.press("Enter")
    assert met[0] == ("A", "Skip to the report")
    assert len([tag for tag, _ in met if tag == "SUMMARY"]) == len(charts) + 1
    # Each table of numbers can be reached once it is open, and the candidates and rows.
    assert len([tag for tag, _ in met if tag == "DIV"]) >= len(charts) + 4
    assert page.locator("details[open]").count() == len(charts) + 1
    page.close()


def test_a_certificate_says_in_words_what_is_proved(binary):
    X, y = binary
    model = make_pipeline(StandardScaler(), LASNClassifier(20, refine=40, random_state=0))
    model.fit(X, np.where(y == 1, "yes", "no"))
    html = html_report(model, X, np.where(y == 1, "yes", "no"), certify=True)
    page = Page(html)
    assert {*CLASSES, "chart-refine"} == page.charts
    certificate = certify(model[-1], model[:-1].transform(X), np.where(y == 1, "yes", "no"))
    assert f"at least {number(certificate.exact_lower_bound)}" in page.text
    assert f"at least {100 * certificate.agreement_share:.3g} %" in page.text
    assert "have the label that the exact machine gives them" in page.text
    without = html_report(model, X, np.where(y == 1, "yes", "no"))
    assert "Certificate" not in without


def test_a_certificate_of_numbers_and_of_an_indefinite_kernel(regression, binary):
    numbers = LASNRegressor(20, random_state=0).fit(*regression)
    page = Page(html_report(numbers, *regression, certify=True))
    assert "gap to the exact machine" in page.text
    assert "labels" not in page.text
    tanh = LASNClassifier(20, kernel="tanh", gamma=0.1, random_state=0).fit(*binary)
    page = Page(html_report(tanh, *binary, certify=True))
    assert "there is no exact machine" in page.text
