-- The demo's shop: one of each kind of column that change capture likes to get wrong.
CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci;

CREATE TABLE shop.customers (
  id         BIGINT UNSIGNED NOT NULL,
  email      VARCHAR(120) NOT NULL,
  name       VARCHAR(80) NOT NULL,
  tier       ENUM('basic', 'silver', 'gold') NOT NULL DEFAULT 'basic',
  interests  SET('books', 'garden', 'music', 'toys') NOT NULL,
  balance    DECIMAL(14, 2) NOT NULL,
  profile    JSON NULL,
  avatar     VARBINARY(32) NULL,
  born       DATE NULL,
  created_at DATETIME(6) NOT NULL,
  seen_at    TIMESTAMP(3) NULL,
  PRIMARY KEY (id)
);

CREATE TABLE shop.orders (
  id          BIGINT UNSIGNED NOT NULL,
  customer_id BIGINT UNSIGNED NOT NULL,
  status      ENUM('new', 'paid', 'shipped') NOT NULL,
  total       DECIMAL(20, 4) NOT NULL,
  note        TEXT NULL,
  details     JSON NOT NULL,
  placed_at   DATETIME(6) NOT NULL,
  paid_at     TIMESTAMP NULL,
  PRIMARY KEY (id),
  KEY by_customer (customer_id)
);

-- The key's order is not the columns' order.
CREATE TABLE shop.order_items (
  line_no   SMALLINT UNSIGNED NOT NULL,
  order_id  BIGINT UNSIGNED NOT NULL,
  sku       VARCHAR(60) NOT NULL,
  quantity  INT NOT NULL,
  price     DECIMAL(10, 2) NOT NULL,
  weight_kg DOUBLE NULL,
  gift      BOOL NOT NULL DEFAULT FALSE,
  options   JSON NULL,
  PRIMARY KEY (order_id, line_no)
);
