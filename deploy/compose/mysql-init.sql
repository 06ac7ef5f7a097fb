-- Run once, when the container's data are new: the worker's account with no more than it needs, and a table to try.
CREATE USER 'aqueduct'@'%' IDENTIFIED BY 'aqueduct';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'aqueduct'@'%';
-- How the captured tables are defined; no row is read.
GRANT SELECT ON shop.* TO 'aqueduct'@'%';

CREATE TABLE shop.customers (
  id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name varchar(80) NOT NULL,
  credit decimal(12,2) NOT NULL DEFAULT 0.00,
  changed_at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)
);
