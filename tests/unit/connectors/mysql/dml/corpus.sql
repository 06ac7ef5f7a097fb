# Statements as services and tools write them, and as people might. Each paragraph is one: its first line has the
# default database (- for none) and the tables that it writes, or "?" where that is not certain; the rest is SQL.

## Amazon RDS and Aurora

mysql  mysql.rds_heartbeat2
INSERT INTO mysql.rds_heartbeat2(id, value) values (1,1795000000000) ON DUPLICATE KEY UPDATE value = 1795000000000

-  mysql.rds_configuration
UPDATE mysql.rds_configuration SET value = '24' WHERE name = 'binlog retention hours'

-  mysql.rds_configuration
INSERT INTO mysql.rds_configuration (name, value, description) VALUES ('source delay', NULL, 'it''s in seconds')

mysql  mysql.rds_history
INSERT INTO mysql.rds_history(called_by_user, action, mysql_version, master_host) values (current_user(), 'set master', @@version, trim('db-1'))

mysql  mysql.rds_replication_status
UPDATE mysql.rds_replication_status SET called_by_user=v_called_by_user, action='start slave' WHERE action IS NOT NULL

mysql  mysql.rds_sysinfo
REPLACE INTO rds_sysinfo VALUES ('innodb_txn_key','1795000000')

mysql  mysql.rds_sysinfo
delete from mysql.rds_sysinfo where name = 'innodb_txn_key'

-  mysql.rds_global_status_history
INSERT INTO mysql.rds_global_status_history(variable_name, variable_value, variable_delta, collection_end) SELECT a.variable_name, a.variable_value, a.variable_value - b.variable_value, NOW() FROM mysql.rds_global_status_history_old a LEFT JOIN mysql.rds_global_status_history b USING (variable_name)

-  mysql.ro_replica_status
REPLACE INTO mysql.ro_replica_status (server_id, session_id, last_update_timestamp) VALUES ('aurora-1', 'MASTER_SESSION_ID', NOW(6))

## Google Cloud SQL

mysql  mysql.heartbeat
REPLACE INTO mysql.heartbeat(id, master_time) VALUES (1, NOW())

-  mysql.heartbeat
/* cloudsql */ INSERT INTO `mysql`.`heartbeat` (`id`, `master_time`) VALUES (1, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE `master_time`=VALUES(`master_time`)

## Azure

mysql  mysql.__az_replica_information__
INSERT INTO mysql.__az_replica_information__ (name, value) VALUES ('lag', '0') ON DUPLICATE KEY UPDATE value = '0'

-  mysql.__az_replication_current_state__
UPDATE `mysql`.`__az_replication_current_state__` SET `state` = 1, `updated` = utc_timestamp() WHERE `id` = 1

mysql  mysql.__az_action_history__
INSERT INTO __az_action_history__ SELECT NULL, current_user(), 'x', now()

## Alibaba, Tencent and their kin

-  mysql.ha_health_check
INSERT INTO mysql.ha_health_check(id, type) VALUES (1795000000000, '0') ON DUPLICATE KEY UPDATE id = 1795000000000, type='0'

mysql  mysql.ha_health_check
update ha_health_check set id = 1795000000000 where type = '0'

## pt-table-checksum

percona  percona.checksums
REPLACE INTO `percona`.`checksums` (db, tbl, chunk, chunk_index, lower_boundary, upper_boundary, this_cnt, this_crc) SELECT 'shop', 'orders', '1', 'PRIMARY', '1', '1000', COUNT(*) AS cnt, COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32(CONCAT_WS('#', `id`, `note`, UNIX_TIMESTAMP(`at`), CONCAT(ISNULL(`note`), ISNULL(`at`)))) AS UNSIGNED)), 10, 16)), 0) AS crc FROM `shop`.`orders` FORCE INDEX(`PRIMARY`) WHERE ((`id` >= '1')) AND ((`id` <= '1000')) /*checksum chunk*/

percona  percona.checksums
REPLACE INTO `percona`.`checksums` (db, tbl, chunk, chunk_index, lower_boundary, upper_boundary, this_cnt, this_crc) SELECT 'shop', 'orders', '2', 'PRIMARY', '1', NULL, COUNT(*), '0' FROM `shop`.`orders` FORCE INDEX(`PRIMARY`) WHERE ((`id` < '1')) ORDER BY `id` /*past upper chunk*/

-  percona.checksums
REPLACE INTO percona.checksums (db, tbl, chunk, this_cnt, this_crc) SELECT 'shop','orders','1',COUNT(*),COALESCE(LOWER(CONCAT(LPAD(CONV(BIT_XOR(CAST(CONV(SUBSTRING(@crc, 1, 16), 16, 10) AS UNSIGNED)), 10, 16), 16, '0'), LPAD(CONV(BIT_XOR(CAST(CONV(SUBSTRING(@crc := SHA1(CONCAT_WS('#', `id`)), 17, 16), 16, 10) AS UNSIGNED)), 10, 16), 16, '0'))), 0) FROM `shop`.`orders`

-  percona.checksums
UPDATE `percona`.`checksums` SET chunk_time = '0.003112', master_crc = 'd7b1f2', master_cnt = '1000' WHERE db = 'shop' AND tbl = 'orders' AND chunk = '1'

percona  percona.checksums
DELETE FROM `percona`.`checksums` WHERE db = 'shop' AND tbl = 'orders'

## pt-heartbeat

percona  percona.heartbeat
REPLACE INTO `percona`.`heartbeat` (ts, server_id, file, position, relay_master_log_file, exec_master_log_pos) VALUES ('2026-11-22T15:00:00.000510', '1', 'binlog.000003', '3000', NULL, NULL)

-  percona.heartbeat
UPDATE `percona`.`heartbeat` SET ts='2026-11-22T15:00:01.000510', file='binlog.000003', position='3100' WHERE server_id='1'

-  percona.heartbeat
INSERT INTO `percona`.`heartbeat` (ts, server_id) VALUES (NOW(), 1)

## gh-ost, pt-online-schema-change, pt-archiver

shop  shop._orders_ghc
insert /* gh-ost */ into `shop`.`_orders_ghc` (id, hint, value) values (NULLIF(1, 0), 'heartbeat', '2026-11-22T15:00:00Z') on duplicate key update last_update=NOW(), value=VALUES(value)

-  shop._orders_gho
insert /* gh-ost `shop`.`orders` */ ignore into `shop`.`_orders_gho` (`id`, `note`) (select `id`, `note` from `shop`.`orders` force index (`PRIMARY`) where (((`id` > _binary'1')) and ((`id` < _binary'1000'))) lock in share mode)

-  shop._orders_new
INSERT LOW_PRIORITY IGNORE INTO `shop`.`_orders_new` (`id`, `note`) SELECT `id`, `note` FROM `shop`.`orders` FORCE INDEX(`PRIMARY`) WHERE ((`id` >= '1')) LOCK IN SHARE MODE /*pt-online-schema-change 811 copy nibble*/

-  shop._orders_new
DELETE IGNORE FROM `shop`.`_orders_new` WHERE `shop`.`_orders_new`.`id` <=> 7

-  shop.orders
DELETE FROM `shop`.`orders` WHERE (`id` = '7') LIMIT 1

## Orchestrator, MHA, MaxScale

meta  meta.cluster
replace into meta.cluster (anchor, cluster_name, cluster_domain) values (1, 'shop', 'db.internal')

-  orchestrator.node_health
insert into orchestrator.node_health (hostname, token, last_seen_active) values ('o1', 'x', now()) on duplicate key update token = values(token), last_seen_active = values(last_seen_active)

-  infra.chk_masterha
INSERT INTO infra.chk_masterha values (1,unix_timestamp()) ON DUPLICATE KEY UPDATE val=unix_timestamp()

-  maxscale_schema.replication_heartbeat
REPLACE INTO maxscale_schema.replication_heartbeat (master_server_id, maxscale_id, master_timestamp) VALUES (1, 2, 1795000000)

## Comments, quotes and defaults

shop  other.t
--
insert/**/into/* shop.orders */other.t/*!50000 (a) */values(1) # shop.orders

shop  shop.orders
INSERT INTO /*!50000 shop.orders */ /*!99999 other.t */ VALUES (1)

-  other.t
INSERT INTO `other` . `t` VALUES ('; DELETE FROM shop.orders')

-  other.sel`ect
INSERT `other`.`sel``ect` SET a = 1

-  ?
INSERT INTO t VALUES (1)

shop  shop.t
INSERT t VALUES (1);

shop  ?
INSERT INTO other.t VALUES (1); DELETE FROM orders

-  other.t
INSERT INTO other.t PARTITION (p0, p1) (a, b) VALUES (1, 2) AS new(x, y) ON DUPLICATE KEY UPDATE a = new.x

-  other.t
INSERT INTO other.t TABLE shop.orders

-  other.t
INSERT INTO other.t WITH c AS (SELECT 1 AS a) SELECT a FROM c

-  other.t
REPLACE DELAYED INTO other.t VALUES ROW(1, 2)

## Many tables

-  a.t
UPDATE a.t JOIN shop.orders AS o ON t.id = o.id AND o.x IN (SELECT y FROM shop.u, shop.v) SET t.n = o.n + 1, t.m = (SELECT MAX(z) FROM shop.w) WHERE o.id > 3

shop  a.t shop.orders
UPDATE a.t, orders SET n = 1

shop  a.t shop.orders
UPDATE LOW_PRIORITY IGNORE a.t x STRAIGHT_JOIN orders USE INDEX (i, j) IGNORE INDEX FOR JOIN (k), b.u SET x.n = 1, orders.m := IF(1, 2, 3) ORDER BY 1

-  a.t
UPDATE a.t SET a.t.n = 1, n = DEFAULT(n) LIMIT 3

-  a.t
UPDATE (a.t LEFT JOIN shop.orders o USING (id)) SET t.n = 1

-  a.t
UPDATE a.t, (SELECT id FROM shop.orders) AS d SET n = d.id

-  ?
UPDATE ((SELECT 1 AS i) AS d JOIN shop.orders o) LEFT JOIN a.t ON 1 SET n = 1

-  ?
UPDATE a.t SET u.n = 1

-  a.t b.u
WITH c AS (SELECT id FROM shop.orders) UPDATE a.t, c, b.u SET n = c.id

shop  shop.c
WITH orders AS (SELECT 1 AS id) UPDATE c JOIN orders ON c.id = orders.id SET c.n = 1

-  a.t
DELETE t FROM a.t JOIN shop.orders o ON o.id = t.id WHERE o.x = 1

-  a.t b.u
DELETE FROM a.t.*, b.u.* USING a.t, b.u, shop.orders WHERE t.id = u.id

-  shop.orders
DELETE QUICK o.* FROM a.t, shop.orders AS o WHERE o.id = t.id

-  ?
DELETE x FROM a.t, shop.orders

-  a.t
DELETE FROM a.t AS x WHERE x.id IN (SELECT id FROM shop.orders) ORDER BY id LIMIT 5

-  a.t
WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5) DELETE FROM a.t WHERE id IN (SELECT n FROM c)

-  a.set
UPDATE a.set SET a.set.select = 1

## Files

shop  a.t
LOAD DATA LOCAL INFILE '/tmp/SQL_LOAD-1-2-3.data' REPLACE INTO TABLE `a`.`t` CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' (`id`, @x) SET `n` = CONCAT(@x, 'INTO TABLE shop.orders')

shop  shop.orders
LOAD XML INFILE 'x' INTO TABLE orders ROWS IDENTIFIED BY '<row>'

## Functions that may be stored ones, and what names nothing

-  ?
INSERT INTO other.t VALUES (other.bump())

other  ?
INSERT INTO t VALUES (bump())

other  ?
INSERT INTO t VALUES (`now`())

other  ?
INSERT INTO t SELECT COUNT (*) FROM u

shop  ?
DO bump()

shop  ?
SELECT `shop`.`bump`()

shop  ?
CALL fill()

shop  ?
INSERT INTO other.t VALUES ('no end)

-  other.t
SET STATEMENT max_statement_time = 10 FOR INSERT INTO other.t VALUES (1) RETURNING id
