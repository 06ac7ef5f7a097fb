import os
import subprocess
import sys
import time

from bench.measure import Watch, busy_seconds, cpu_seconds, pss_mib

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_the_time_of_a_process_that_ended_still_counts() -> None:
    watch = Watch({"us": os.getpid()}, child="burner")
    child = subprocess.Popen(
        [sys.executable, "-c", BURN + "print(flush=True)\nimport time\ntime.sleep(60)"],
        stdout=subprocess.PIPE,
    )
    assert child.stdout
    child.stdout.readline()
    watch.discover()
    seen = watch.cpu()["burner 1"]
    child.kill()
    child.wait()
    child.stdout.close()
    assert cpu_seconds(child.pid) is None
    assert watch.cpu()["burner 1"] == seen > 0


def test_memory_is_the_sum_over_a_family_and_its_peak_stays() -> None:
    watch = Watch({"us": os.getpid()}, child="child")
    watch.sample_memory("us")
    peak = watch.peak_mib
    assert peak >= pss_mib(os.getpid()) * 0.5 > 0
    watch.peak_mib = peak + 1e6
    watch.sample_memory("us")
    assert watch.peak_mib == peak + 1e6


def test_a_process_that_is_gone_has_no_memory() -> None:
    assert pss_mib(2**22 + 1) == 0.0


def test_the_machines_busy_time_holds_ours() -> None:
    before, own = busy_seconds(), time.process_time()
    while time.process_time() - own < 0.2:
        pass
    assert busy_seconds() > before
