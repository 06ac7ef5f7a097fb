from demo.observe import visible_offsets


def test_the_visible_offsets_are_read_from_prometheus_text() -> None:
    metrics = """\
# HELP aqueduct_sink_applied_offset Offset.
# TYPE aqueduct_sink_applied_offset gauge
aqueduct_sink_applied_offset{topic="aq.shop.orders",partition="0"} 1202.0
aqueduct_sink_applied_offset{partition="3",topic="aq.shop.x--y"} 1.2e+06
aqueduct_sink_batches_total 7.0
"""
    assert visible_offsets(metrics) == {("aq.shop.orders", 0): 1202, ("aq.shop.x--y", 3): 1_200_000}
