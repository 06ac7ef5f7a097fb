"""Deployment files match the code: metrics, settings, container files, units."""

import json
import re
from typing import Any

import pytest
import yaml

from app import metrics
from app.settings.model import load
from app.worker.process.faust_app import EXIT_CONFIGURATION
from spark_sink.metrics import Metrics
from spark_sink.settings import model as sink_settings
from tests.architecture.deployed import stage_faults, stages, uncopied, unknown_metrics
from tests.architecture.test_operating_page import described
from tests.architecture.tree import PROJECT, File, files

KNOWN = {name for name, _, _ in described(metrics.REGISTRY) | described(Metrics().registry)}
_PIN = re.compile(r"^([\w.-]+)==([^\s;\\]+)", re.MULTILINE)


def text_of(path: str) -> str:
    return (PROJECT / path).read_text()


def exists(path: str) -> bool:
    return (PROJECT / path).exists()


def compose() -> dict[str, Any]:
    services = yaml.safe_load(text_of("compose.yaml"))["services"]
    assert isinstance(services, dict)
    return services


def dashboard() -> dict[str, Any]:
    found = json.loads(text_of("deploy/grafana/aqueduct.json"))
    assert isinstance(found, dict)
    return found


def test_every_metric_that_is_named_is_exposed() -> None:
    named = [file for file in files() if file.path.startswith("deploy/")]
    assert len(named) > 3
    assert list(unknown_metrics(named, KNOWN)) == []


def test_a_metric_that_nobody_exposes_is_found() -> None:
    planted = File("rules.yml", "expr: rate(aqueduct_gone_total[5m]) > aqueduct_seq_bucket")
    assert list(unknown_metrics([planted], {"aqueduct_seq"})) == [
        "rules.yml names aqueduct_gone_total"
    ]


def test_the_dashboard_can_be_imported_anywhere() -> None:
    found = dashboard()
    assert (found["uid"], found["id"]) == ("aqueduct-overview", None)
    sources = {panel["datasource"]["uid"] for panel in found["panels"]}
    assert sources == {"${source}"}
    assert found["templating"]["list"][0]["type"] == "datasource"


def test_no_two_panels_have_the_same_id_or_place() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)


def test_every_alert_says_what_is_wrong_and_how_urgent_it_is() -> None:
    for group in yaml.safe_load(text_of("deploy/prometheus/alerts.yml"))["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in {"page", "warn"}
            assert rule["annotations"]["summary"]
            assert rule["expr"].count("(") == rule["expr"].count(")")


def test_the_worker_takes_the_settings_of_compose(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in compose()["worker"]["environment"].items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(PROJECT / "docs")
    settings = load()
    given = {name for name in compose()["worker"]["environment"] if "DESTINATIONS" not in name}
    assert given <= {variable(path) for path in paths(settings.model_dump())}
    shop = settings.destinations["shop"]
    assert (shop.listed[0].host, shop.filter.include) == ("mysql", r"shop\..*")
    assert settings.topics.replication_factor == 1


def test_the_sink_takes_the_settings_of_compose(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in compose()["sink"]["environment"].items():
        monkeypatch.setenv(name, value)
    assert sink_settings.read(None).prefix == load_prefix()


def test_every_port_is_on_loopback() -> None:
    ports = [port for service in compose().values() for port in service["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_service_has_a_health_check() -> None:
    built = {name for name, service in compose().items() if "build" in service}
    assert built == {"worker", "sink"}
    assert all("healthcheck" in compose()[name] for name in compose().keys() - built)


def test_the_dockerfile_copies_only_what_is_there() -> None:
    dockerfile, dockerignore = text_of("Dockerfile"), text_of(".dockerignore")
    assert list(uncopied(dockerfile, dockerignore, exists)) == []


def test_the_images_are_not_root_and_start_programs_directly() -> None:
    found = stages(text_of("Dockerfile"))
    assert [*stage_faults("worker", found["worker"]), *stage_faults("sink", found["sink"])] == []


def test_the_workers_image_holds_its_three_packages() -> None:
    copies = dict(stages(text_of("Dockerfile")))["worker"]
    folders = {rest.split()[0] for word, rest in copies if word == "COPY"}
    assert {"app/", "connectors/", "tables/"} <= folders


def test_a_source_that_is_missing_or_kept_back_is_found() -> None:
    dockerfile = "FROM x AS y\nCOPY gone.lock app/ /x/\nCOPY --from=z /a /b\n"
    assert list(uncopied(dockerfile, "*\n!gone.lock\n", lambda path: path == "app")) == [
        "gone.lock is not there",
        "app is kept from the builder",
    ]


def test_an_image_that_runs_as_root_by_a_shell_is_found() -> None:
    (lines,) = stages("FROM x AS y\n# a\nRUN a \\\n && b\nCMD python -m app\n").values()
    assert list(stage_faults("y", lines)) == [
        "y runs as root",
        "y has no health check",
        "y has CMD in shell form",
    ]


def test_the_workers_lock_is_a_part_of_the_whole_lock_and_has_no_spark() -> None:
    whole = dict(_PIN.findall(text_of("requirements.lock")))
    worker = dict(_PIN.findall(text_of("requirements.worker.lock")))
    assert worker.items() <= whole.items()
    assert not worker.keys() & {"pyspark", "py4j", "pytest"}
    assert "faust-streaming" in worker


def test_systemd_does_not_start_again_what_settings_stopped() -> None:
    unit = text_of("deploy/systemd/aqueduct-worker.service")
    assert f"RestartPreventExitStatus={EXIT_CONFIGURATION}\n" in unit


def load_prefix() -> str:
    prefix = compose()["worker"]["environment"]["AQUEDUCT_PREFIX"]
    assert isinstance(prefix, str)
    return prefix


def paths(tree: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, value in tree.items():
        if isinstance(value, dict):
            found += paths(value, f"{prefix}{name}.")
        else:
            found.append(prefix + name)
    return found


def variable(path: str) -> str:
    return "AQUEDUCT_" + path.replace(".", "__").upper()
