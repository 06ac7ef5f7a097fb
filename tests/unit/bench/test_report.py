import dataclasses
import os

from bench import report
from bench.flat import stretches
from bench.report import Pair
from bench.run import Result


def result(peer: str, workload: str, rows_per_second: float, **more: object) -> Result:
    made = Result(
        peer=peer,
        workload=workload,
        partitions=1,
        all_rows=390_000,
        rows=380_000,
        seconds=380_000 / rows_per_second,
        cpu={"worker": 3.8, "broker": 0.38, "mysqld": 0.19, "resource tracker": 0.0},
        others=0.0,
        peak_mib=100.0,
        startup_seconds=3.0,
        quiet=True,
        stored_bytes=3_900_000,
    )
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def pair(workload: str, ours: float, theirs: float, *, peak: float = 100.0) -> Pair:
    return Pair(
        result("aqueduct", workload, ours, peak_mib=peak), result("debezium", workload, theirs)
    )


def test_the_last_line_has_the_medians_and_our_largest_memory() -> None:
    pairs = [
        *(pair("W1", ours, 10_000) for ours in (25_000, 40_000, 26_000)),
        *(pair("W2", ours, 10_000, peak=150) for ours in (30_000, 29_000, 35_000)),
    ]
    assert report.last_line(pairs) == "bench: ratio_w1=2.60 ratio_w2=3.00 rss_mib=150"


def test_a_pair_is_reported_by_speed_cpu_and_memory() -> None:
    theirs = result("debezium", "W1", 20_000, peak_mib=1000.0, cpu={"connect": 15.2})
    reported = Pair(result("aqueduct", "W1", 50_000), theirs).to_text()
    assert "2.50 times the rows/s of debezium" in reported
    assert "0.25 times its CPU for a row, 0.10 times its memory" in reported


def test_a_run_is_reported_with_the_cpu_of_every_process_that_took_any() -> None:
    reported = report.line(result("aqueduct", "W1", 40_000))
    assert "40,000 rows/s" in reported
    assert reported.endswith("CPU s/Mrow: worker 10.0  broker 1.0  mysqld 0.5")


def test_a_run_that_others_disturbed_says_so() -> None:
    seconds = 380_000 / 40_000 * (os.cpu_count() or 1)
    assert "[" not in report.line(result("aqueduct", "W1", 40_000, others=0.05 * seconds))
    disturbed = result("aqueduct", "W1", 40_000, others=0.2 * seconds, quiet=False)
    assert "others used" in report.line(disturbed)
    assert "not quiet before" in report.line(disturbed)


def test_the_table_has_one_line_for_all_runs_of_a_peer_on_a_workload() -> None:
    runs = [result("aqueduct", "W1", speed) for speed in (10_000, 30_000, 20_000)]
    assert list(report.table(runs))[2:] == [
        "| aqueduct | W1 | 1 | 3 | 20,000 | 10.0 | 1.0 | 0.5 | 100 | 10 |"
    ]


def test_a_curve_is_cut_at_powers_of_ten() -> None:
    curve = [
        (0.0, 12_000, 1.0),
        (1.0, 100_000, 5.4),
        (9.0, 1_000_000, 50.4),
        (12.0, 1_200_000, 62.4),
    ]
    cut = stretches(result("aqueduct", "deep", 1.0, all_rows=1_200_000, curve=curve))
    assert [(part.first, part.last, round(part.per_million)) for part in cut] == [
        (12_000, 100_000, 50),
        (100_000, 1_000_000, 50),
        (1_000_000, 1_200_000, 60),
    ]
