from xml.etree import ElementTree

from bench.plot import bars, curves, picture

RESULTS = [
    {"peer": peer, "workload": workload, "rows_per_second": speed, "curve": []}
    for peer, workload, speed in (
        ("aqueduct", "W1", 60_000.0),
        ("aqueduct", "W1", 90_000.0),
        ("aqueduct", "W1", 70_000.0),
        ("<other>", "W1", 35_000.0),
        ("aqueduct", "W1x50", 1.0),
    )
]


def test_a_bar_is_the_median_of_a_peers_runs_on_a_counted_workload() -> None:
    assert [(bar.label, bar.value) for bar in bars(RESULTS)] == [
        ("aqueduct", 70_000.0),
        ("<other>", 35_000.0),
    ]


def test_a_curve_shows_the_cost_between_its_points_and_not_since_the_start() -> None:
    curve = [(0.0, 10_000, 50.0), (1.0, 40_000, 51.5), (2.0, 140_000, 54.5)]
    found = curves([{"workload": "deep", "curve": curve}])
    assert found == {"deep": [(40_000, 50.0), (140_000, 30.0)]}


def test_the_picture_is_xml_with_a_bar_for_each_peer() -> None:
    drawn = picture(bars(RESULTS), {"deep": [(100_000, 20.0), (9_000_000, 21.0)], "wide": []})
    root = ElementTree.fromstring(drawn)
    rectangles = [int(each.get("width", "")) for each in root.iterfind("{*}rect")][1:]
    assert rectangles[0] == rectangles[1] * 2
    assert len(list(root.iterfind("{*}polyline"))) == 2
