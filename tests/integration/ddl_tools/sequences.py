"""The statements of tools that change tables online, as each sends them, with an application's rows between.

Every one of them changes ``osc.orders`` from ``BEFORE`` to ``AFTER``. The words are those of gh-ost 1.1's
go/logic/applier.go and go/sql/builder.go, pt-online-schema-change 3.7, Spirit's pkg/migration, LHM's switchers
and OnlineSchemaChange's core/lib/sql.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One statement."""

    sql: str
    session: Literal["tool", "lock", "app"] = "tool"
    waits: bool = False
    """It waits for a lock until a later statement releases it."""


def tool(*statements: str) -> tuple[Step, ...]:
    return tuple(Step(sql=sql) for sql in statements)


def app(*statements: str) -> tuple[Step, ...]:
    return tuple(Step(sql=sql, session="app") for sql in statements)


def lock(*statements: str) -> tuple[Step, ...]:
    return tuple(Step(sql=sql, session="lock") for sql in statements)


BEFORE = """\
CREATE TABLE orders (
  `id` int unsigned NOT NULL AUTO_INCREMENT,
  `customer` varchar(40) NOT NULL,
  `amount` decimal(9,2) DEFAULT NULL,
  `state` enum('new','paid') NOT NULL DEFAULT 'new',
  PRIMARY KEY (`id`),
  KEY `by_customer` (`customer`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"""
CHANGE = (
    "add column note varchar(200) default null after customer, modify amount decimal(12,2) not null default 0, "
    "drop key by_customer"
)
AFTER = {
    "id": "int unsigned",
    "customer": "varchar(40)",
    "note": "varchar(200)",
    "amount": "decimal(12,2)",
    "state": "enum('new','paid')",
}
BEGIN = (
    "CREATE DATABASE osc",
    "USE osc",
    BEFORE,
    "INSERT INTO orders (customer, amount) VALUES ('Ann', 1.50), ('Bob', 2.50), ('Cem', 3.50)",
)
WRITES = (
    "INSERT INTO orders (customer, amount, state) VALUES ('Dan', 4.50, 'paid')",
    "UPDATE orders SET amount = 9.99 WHERE id = 2",
    "DELETE FROM orders WHERE id = 3",
)
LATER = (
    "INSERT INTO orders (customer, note) VALUES ('Eve', 'new')",
    "DELETE FROM orders WHERE id = 1",
)

_GHOST_BEGIN = tool(
    "drop /* gh-ost */ table if exists `osc`.`_orders_gho`",
    "drop /* gh-ost */ table if exists `osc`.`_orders_del`",
    "drop /* gh-ost */ table if exists `osc`.`_orders_ghc`",
    """create /* gh-ost */ table `osc`.`_orders_ghc` (
            id bigint unsigned auto_increment,
            last_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
            hint varchar(64) charset ascii not null,
            value varchar(4096) charset ascii not null,
            primary key(id),
            unique key hint_uidx(hint)
        ) auto_increment=256 comment='gh-ost changelog'""",
    "create /* gh-ost */ table `osc`.`_orders_gho` like `osc`.`orders`",
    f"alter /* gh-ost */ table `osc`.`_orders_gho` {CHANGE}",
    """insert /* gh-ost */ into `osc`.`_orders_ghc` (id, hint, value) values (NULLIF(2, 0), 'state',
        'GhostTableMigrated') on duplicate key update last_update=NOW(), value=VALUES(value)""",
    """insert /* gh-ost */ into `osc`.`_orders_ghc` (id, hint, value) values (NULLIF(1, 0), 'heartbeat',
        '2026-11-21T10:00:00+00:00') on duplicate key update last_update=NOW(), value=VALUES(value)""",
    """create /* gh-ost */ table `osc`.`_orders_ghk` (
        `gh_ost_chk_id` bigint auto_increment primary key, `gh_ost_chk_timestamp` bigint,
        `gh_ost_chk_coords` text charset ascii, `id_min` int unsigned, `id_max` int unsigned)""",
)
_GHOST_COPY = (
    *tool(
        """insert /* gh-ost `osc`.`orders` */ ignore into `osc`.`_orders_gho`
            (`id`, `customer`, `amount`, `state`)
            (select `id`, `customer`, `amount`, `state` from `osc`.`orders` force index (`PRIMARY`)
             where (((`id` > _binary'1') or ((`id` = _binary'1'))) and ((`id` < _binary'3')
                or ((`id` = _binary'3')))) lock in share mode)"""
    ),
    *app(*WRITES),
    *tool(
        """insert /* gh-ost `osc`.`_orders_gho` */ ignore into `osc`.`_orders_gho`
            (`id`, `customer`, `amount`, `state`) values (4, 'Dan', 4.50, 'paid')""",
        """update /* gh-ost `osc`.`_orders_gho` */ `osc`.`_orders_gho` set `id`=2, `customer`='Bob',
            `amount`=9.99, `state`='new' where ((`id` = 2))""",
        "delete /* gh-ost `osc`.`_orders_gho` */ from `osc`.`_orders_gho` where ((`id` = 3))",
    ),
)
_GHOST_END = (
    *app(*LATER),
    *tool(
        "drop /* gh-ost */ table if exists `osc`.`_orders_ghc`",
        "drop /* gh-ost */ table if exists `osc`.`_orders_ghk`",
        "drop /* gh-ost */ table if exists `osc`.`_orders_del`",
    ),
)
_GHOST_SWAP = (
    "rename /* gh-ost */ table `osc`.`orders` to `osc`.`_orders_del`, "
    "`osc`.`_orders_gho` to `osc`.`orders`"
)
GH_OST = (
    *_GHOST_BEGIN,
    *_GHOST_COPY,
    *lock(
        """create /* gh-ost */ table `osc`.`_orders_del` (
            id int auto_increment primary key
        ) engine=InnoDB comment='ghost-cut-over-sentry'""",
        "lock /* gh-ost */ tables `osc`.`orders` write, `osc`.`_orders_del` write",
    ),
    Step(sql=_GHOST_SWAP, waits=True),
    *lock("drop /* gh-ost */ table if exists `osc`.`_orders_del`", "unlock /* gh-ost */ tables"),
    *_GHOST_END,
)
GH_OST_IN_TWO_STEPS = (
    *_GHOST_BEGIN,
    *_GHOST_COPY,
    *lock(
        "lock /* gh-ost */ tables `osc`.`orders` write",
        "alter /* gh-ost */ table `osc`.`orders` rename `_orders_del`",
        "unlock /* gh-ost */ tables",
    ),
    *tool("alter /* gh-ost */ table `osc`.`_orders_gho` rename `orders`"),
    *_GHOST_END,
)

_PT_BEGIN = (
    *tool(
        BEFORE.replace("orders", "`osc`.`_orders_new`", 1),
        f"ALTER TABLE `osc`.`_orders_new` {CHANGE}",
        """CREATE TRIGGER `pt_osc_osc_orders_del` AFTER DELETE ON `osc`.`orders` FOR EACH ROW BEGIN
            DECLARE CONTINUE HANDLER FOR 1146 begin end;
            DELETE IGNORE FROM `osc`.`_orders_new` WHERE `osc`.`_orders_new`.`id` <=> OLD.`id`; END """,
        """CREATE TRIGGER `pt_osc_osc_orders_upd` AFTER UPDATE ON `osc`.`orders` FOR EACH ROW BEGIN
            DECLARE CONTINUE HANDLER FOR 1146 begin end;
            DELETE IGNORE FROM `osc`.`_orders_new` WHERE !(OLD.`id` <=> NEW.`id`)
               AND `osc`.`_orders_new`.`id` <=> OLD.`id`;
            REPLACE INTO `osc`.`_orders_new` (`id`, `customer`, `amount`, `state`)
             VALUES (NEW.`id`, NEW.`customer`, NEW.`amount`, NEW.`state`); END """,
        """CREATE TRIGGER `pt_osc_osc_orders_ins` AFTER INSERT ON `osc`.`orders` FOR EACH ROW BEGIN
            DECLARE CONTINUE HANDLER FOR 1146 begin end;
            REPLACE INTO `osc`.`_orders_new` (`id`, `customer`, `amount`, `state`)
             VALUES (NEW.`id`, NEW.`customer`, NEW.`amount`, NEW.`state`);END """,
    ),
    *app(WRITES[0]),
    *tool(
        """INSERT LOW_PRIORITY IGNORE INTO `osc`.`_orders_new` (`id`, `customer`, `amount`, `state`)
            SELECT `id`, `customer`, `amount`, `state` FROM `osc`.`orders` LOCK IN SHARE MODE
            /*pt-online-schema-change 4711 copy table*/"""
    ),
    *app(*WRITES[1:]),
    *tool("ANALYZE TABLE `osc`.`_orders_new` /* pt-online-schema-change */"),
)
_PT_END = (
    *tool(
        "DROP TRIGGER IF EXISTS `osc`.`pt_osc_osc_orders_del`",
        "DROP TRIGGER IF EXISTS `osc`.`pt_osc_osc_orders_upd`",
        "DROP TRIGGER IF EXISTS `osc`.`pt_osc_osc_orders_ins`",
    ),
    *app(*LATER),
)
PT_OSC = (
    *_PT_BEGIN,
    *tool(
        "RENAME TABLE `osc`.`orders` TO `osc`.`_orders_old`, `osc`.`_orders_new` TO `osc`.`orders`",
        "DROP TABLE IF EXISTS `osc`.`_orders_old`",
    ),
    *_PT_END,
)
PT_OSC_DROP_SWAP = (
    *_PT_BEGIN,
    *tool(
        "SET foreign_key_checks=0",
        "DROP TABLE IF EXISTS `osc`.`orders`",
        "RENAME TABLE `osc`.`_orders_new` TO `osc`.`orders`",
    ),
    *_PT_END,
)

SPIRIT = (
    *tool(
        "DROP TABLE IF EXISTS `_orders_new`",
        "CREATE TABLE `_orders_new` LIKE `orders`",
        f"ALTER TABLE `_orders_new` {CHANGE}, ALGORITHM=COPY",
        "DROP TABLE IF EXISTS `_orders_chkpnt`",
        """CREATE TABLE `_orders_chkpnt` (
        id int NOT NULL AUTO_INCREMENT PRIMARY KEY,
        copier_watermark TEXT,
        checksum_watermark TEXT,
        binlog_position TEXT,
        statement TEXT,
        original_table_name VARCHAR(64) NOT NULL DEFAULT '',
        created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
)""",
        "CREATE TABLE IF NOT EXISTS `_spirit_sentinel` (id int NOT NULL PRIMARY KEY)",
        """INSERT IGNORE INTO `_orders_new` (`id`, `customer`, `amount`, `state`)
            VALUES (1, 'Ann', 1.50, 'new'), (2, 'Bob', 2.50, 'new'), (3, 'Cem', 3.50, 'new')""",
    ),
    *app(*WRITES),
    *tool(
        "REPLACE INTO `_orders_chkpnt` (id, copier_watermark) VALUES (1, 'x')",
        """REPLACE INTO `_orders_new` (`id`, `customer`, `amount`, `state`)
            VALUES (4, 'Dan', 4.50, 'paid'), (2, 'Bob', 9.99, 'new')""",
        "DELETE FROM `_orders_new` WHERE `id` IN (3)",
        "DROP TABLE `_spirit_sentinel`",
        "DROP TABLE IF EXISTS `_orders_old`",
        "LOCK TABLES `osc`.`orders` WRITE, `osc`.`_orders_new` WRITE",
        "RENAME TABLE `orders` TO `_orders_old`, `_orders_new` TO `orders`",
        "UNLOCK TABLES",
    ),
    *app(*LATER),
    *tool("DROP TABLE IF EXISTS `_orders_old`", "DROP TABLE IF EXISTS `_orders_chkpnt`"),
)

_LHM_COPY = (
    *tool(
        BEFORE.replace("orders", "`lhmn_orders`", 1),
        f"alter table `lhmn_orders` {CHANGE}",
        """create trigger `lhmt_ins_orders` after insert on `orders` for each row
            replace into `lhmn_orders` (`id`, `customer`, `amount`, `state`) /* large hadron migrator */
            values (`NEW`.`id`, `NEW`.`customer`, `NEW`.`amount`, `NEW`.`state`)""",
        "create trigger `lhmt_del_orders` after delete on `orders` for each row"
        " delete ignore from `lhmn_orders` where `lhmn_orders`.`id` = OLD.`id`",
        """insert ignore into `lhmn_orders` (`id`, `customer`, `amount`, `state`)
            select `orders`.`id`, `orders`.`customer`, `orders`.`amount`, `orders`.`state` from `orders`
             where `orders`.`id` between 1 and 40000""",
    ),
    *app(WRITES[0], WRITES[2]),
)
LHM = (
    *_LHM_COPY,
    *tool(
        "rename table `orders` to `lhma_2026_11_21_10_00_00_123_orders`, `lhmn_orders` to `orders`"
    ),
    *app(*LATER),
)
OSC = (
    *tool(
        BEFORE.replace("orders", "`__osc_new_orders`", 1),
        f"alter table `__osc_new_orders` {CHANGE}",
        "CREATE TABLE `__osc_chg_orders` (`__osc_id` int AUTO_INCREMENT PRIMARY KEY, `__osc_type` int,"
        " `id` int unsigned)",
        "INSERT INTO `__osc_chg_orders` (`__osc_type`, `id`) VALUES (1, 1)",
        "INSERT INTO `__osc_new_orders` (`id`, `customer`, `amount`, `state`)"
        " SELECT `id`, `customer`, `amount`, `state` FROM `orders`",
    ),
    *app(*WRITES),
    *tool(
        "REPLACE INTO `__osc_new_orders` (`id`, `customer`, `amount`, `state`)"
        " SELECT `id`, `customer`, `amount`, `state` FROM `orders` WHERE `id` IN (2, 4)",
        "DELETE FROM `__osc_new_orders` WHERE `id` = 3",
        "LOCK TABLES `orders` WRITE, `__osc_new_orders` WRITE, `__osc_chg_orders` WRITE",
        "ALTER TABLE `orders` rename `__osc_old_orders`",
        "ALTER TABLE `__osc_new_orders` rename `orders`",
        "UNLOCK TABLES",
    ),
    *app(*LATER),
    *tool("DROP TABLE `__osc_chg_orders`", "DROP TABLE `__osc_old_orders`"),
)
SEQUENCES: dict[str, tuple[Step, ...]] = {
    "gh-ost": GH_OST,
    "gh-ost in two steps": GH_OST_IN_TWO_STEPS,
    "pt-online-schema-change": PT_OSC,
    "pt-online-schema-change by dropping": PT_OSC_DROP_SWAP,
    "Spirit": SPIRIT,
    "LHM": LHM,
    "OnlineSchemaChange": OSC,
}
TWO_STEPS = {
    "gh-ost in two steps",
    "pt-online-schema-change by dropping",
    "OnlineSchemaChange",
}
