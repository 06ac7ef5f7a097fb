"""Where Canal keeps its cursors, by the Spring file of an instance: memory, files, ZooKeeper."""

from __future__ import annotations

from app.migrate.canal.configuration import Instance
from app.migrate.draft import Draft

_JOURNAL = "Aqueduct commits the cursor to the journal topic, with the rows"
_MODES = {
    "memory-instance.xml": f"Canal kept cursors in memory only; {_JOURNAL}",
    "file-instance.xml": f"Canal wrote cursors to meta.dat after a while; {_JOURNAL}",
    "default-instance.xml": f"Canal wrote cursors to ZooKeeper after a while; {_JOURNAL}",
    "group-instance.xml": "Canal read several masters as one; here each is a destination, and a mapping "
    "can make their tables one logical table",
}
_OTHER = f"a Spring file of your own; {_JOURNAL}"
_IN_ZOOKEEPER = "default-instance.xml"
_EXPORT = (
    "its cursor is in ZooKeeper: save `zkCli.sh get /otter/canal/destinations/{name}/1001/cursor` in a "
    "file and import again with --cursor {name}=FILE; without it the start is that of instance.properties"
)
_MANAGER = "the configuration is in canal-admin; export its files into DIR and import again"


def convert_meta_mode(draft: Draft, instance: Instance) -> None:
    """Report the mode of an instance, and a cursor that has to be exported first."""
    keys = instance.keys
    own = f"canal.instance.{instance.name}"
    xml = keys.first(f"{own}.spring.xml", "canal.instance.global.spring.xml")
    if xml is not None:
        file = xml.value.rpartition("/")[2]
        draft.instead(xml, _MODES.get(file, _OTHER))
        if file == _IN_ZOOKEEPER and not instance.cursors:
            draft.note(instance.label, _EXPORT.format(name=instance.name))
    mode = keys.first(f"{own}.mode", "canal.instance.global.mode")
    if mode is not None and mode.value.lower() == "manager":
        draft.by_hand(mode, _MANAGER)
