# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people read of an experiment, on the terminal and on the page."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._experiment.page import page, table
from ansible_collections.rdmaops.gpu_fabric.tests.support.html_page import Page
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._experiment.runs import (
    DEFAULT,
    TOPOLOGY,
    benchmark,
)


def result(**changes: t.Any) -> dict[str, t.Any]:
    document = {"title": "the guide", "numbers": {"images_per_second_per_device": 205.1}, "samples": [], "details": {}}
    run = benchmark([41.0, 42.0, 43.0], device="CPU", device_type="cpu")
    parts = {"name": "vgg16-topology", "title": "VGG16", "document": document, "run": run, "earlier": None}
    return {**parts, **changes}


def other(samples: t.Sequence[float], **changes: t.Any) -> dict[str, t.Any]:
    return result(name="vgg16", run=benchmark(samples, **changes))


def test_table() -> None:
    runs = result(run=benchmark(TOPOLOGY), earlier=benchmark([100.0, 110.0, 105.0]))
    assert table(runs, {"vgg16": other(DEFAULT)}) == (
        "Experiment vgg16-topology\n"
        "  images per second and device\n"
        "    the guide       205.1 images/s\n"
        "    vgg16           108.8 images/s\n"
        "    the run before  105 images/s\n"
        "    this run        205.1 images/s\n"
        "  images per second of all devices\n"
        "    vgg16           435.2 images/s\n"
        "    the run before  420 images/s\n"
        "    this run        820.4 images/s\n"
        "  This run is 88.5 % faster than vgg16 (with 95 % confidence +86.6 to +90.4 %).\n"
        "  This run is 95.3 % faster than the run before (with 95 % confidence +83.5 to +107.2 %).\n"
    )


def test_page() -> None:
    reader = Page(page(result(), {"vgg16": other(DEFAULT)}))
    bars = [float(bar.attributes["width"] or 0) for bar in reader.find("rect")]
    # The document, vgg16 and this run; then the same without the document.
    assert bars[2] / bars[0] == pytest.approx(42 / 205.1, rel=0.001)
    assert bars[1] / bars[0] == pytest.approx(108.8 / 205.1, rel=0.001)
    assert len(bars) == 5
    assert reader.tags.count("line") == 13
    assert "This run cannot be compared with vgg16: they differ in kind of device (cpu, cuda)." in reader.texts
    rows = [row.text.split() for row in reader.find("tr") if row.attributes.get("class") == "differs"]
    assert ["kind", "of", "device", "not", "known", "cuda", "cpu"] in rows


def test_a_number_of_zero_has_a_bar_without_length() -> None:
    run = {"numbers": {"accuracy": 0.0}, "samples": [], "details": {}}
    reader = Page(page(result(run=run, document=None), {}))
    assert [bar.attributes["width"] for bar in reader.find("rect")] == ["0.00"]


def test_a_run_without_numbers_is_named() -> None:
    document = {"title": "the guide", "numbers": {}, "samples": [], "details": {}}
    assert "the guide has no numbers." in Page(page(result(document=document), {})).text


def test_every_character_of_a_name_stays_text() -> None:
    name = "<script>&\"'\0\ud800\r\u202e</script>"
    text = page(
        result(title=name, run=benchmark(TOPOLOGY, model=name, backend=name)), {name: other(DEFAULT, hosts=[name])}
    )
    assert text.encode("utf-8")
    assert "\r" not in text
    reader = Page(text)
    assert not {"script", "img", "link"}.intersection(reader.tags)
    assert not {"src", "href", "onload", "onerror"} & dict(reader.attributes).keys()
    seen = name.replace("\0", "\ufffd").replace("\ud800", "\ufffd")
    # The headline; two bars, the head of the table; model and backend, and the hosts of the other.
    assert reader.texts.count(seen) == 7
