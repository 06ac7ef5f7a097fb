-- Run once, when the container is initialized: creates the worker's account with the required privileges, and a sample table.
CREATE USER 'aqueduct'@'%' IDENTIFIED BY 'aqueduct';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'aqueduct'@'%';
-- Lets the worker read table definitions; it reads no rows.
GRANT SELECT ON shop.* TO 'aqueduct'@'%';

CREATE TABLE shop.customers (
  id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name varchar(80) NOT NULL,
  credit decimal(12,2) NOT NULL DEFAULT 0.00,
  changed_at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)
);
