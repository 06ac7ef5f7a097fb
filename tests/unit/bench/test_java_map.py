from bench.peers.java_map import serialized

# What ObjectOutputStream of Java 17 wrote for a HashMap with the key "k" and the value "value".
GOLDEN = (
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f72"
    "4900097468726573686f6c6478703f4000000000000c7708000000100000000175720002"
    "5b42acf317f8060854e0020000787000000001" + b"k".hex() + "7571007e000200000005" + b"value".hex()
    + "78"
)  # fmt: skip


def test_a_map_is_what_java_writes() -> None:
    assert serialized(b"k", b"value").hex() == GOLDEN
