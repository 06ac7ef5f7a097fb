#: Hibernate's hbm2ddl, Flyway's and Liquibase's own tables, and what such scripts hold.
#: on 9.7 5.7 mariadb-10.11
create database bank;
use bank;
CREATE TABLE `bank`.`flyway_schema_history` (
    `installed_rank` INT NOT NULL,
    `version` VARCHAR(50),
    `description` VARCHAR(200) NOT NULL,
    `type` VARCHAR(20) NOT NULL,
    `script` VARCHAR(1000) NOT NULL,
    `checksum` INT,
    `installed_by` VARCHAR(100) NOT NULL,
    `installed_on` TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    `execution_time` INT NOT NULL,
    `success` BOOL NOT NULL,
    CONSTRAINT `flyway_schema_history_pk` PRIMARY KEY (`installed_rank`)
) ENGINE=InnoDB;
CREATE INDEX `flyway_schema_history_s_idx` ON `bank`.`flyway_schema_history` (`success`);
CREATE TABLE bank.DATABASECHANGELOGLOCK (ID INT NOT NULL, `LOCKED` BIT(1) NOT NULL, LOCKGRANTED datetime NULL, LOCKEDBY VARCHAR(255) NULL, CONSTRAINT PK_DATABASECHANGELOGLOCK PRIMARY KEY (ID));
CREATE TABLE bank.DATABASECHANGELOG (ID VARCHAR(255) NOT NULL, AUTHOR VARCHAR(255) NOT NULL, FILENAME VARCHAR(255) NOT NULL, DATEEXECUTED datetime NOT NULL, ORDEREXECUTED INT NOT NULL, EXECTYPE VARCHAR(10) NOT NULL, MD5SUM VARCHAR(35) NULL, `DESCRIPTION` VARCHAR(255) NULL, COMMENTS VARCHAR(255) NULL, TAG VARCHAR(255) NULL, LIQUIBASE VARCHAR(20) NULL, CONTEXTS VARCHAR(255) NULL, LABELS VARCHAR(255) NULL, DEPLOYMENT_ID VARCHAR(10) NULL);
create table hibernate_sequence (next_val bigint) engine=InnoDB;
create table account (
        id bigint not null auto_increment,
        balance decimal(38,2),
        opened date,
        active bit not null,
        currency enum ('EUR','USD','GBP'),
        kind tinyint check (kind between 0 and 3),
        owner_id binary(16),
        rate float(53),
        ratio float(23),
        notes tinytext,
        created_at datetime(6),
        primary key (id)
    ) engine=InnoDB;
create table person (id binary(16) not null, DTYPE varchar(31) not null, firstName varchar(255), lastName varchar(255), picture longblob, initial char(1), primary key (id)) engine=InnoDB;
create table person_account (person_id binary(16) not null, accounts_id bigint not null, primary key (person_id, accounts_id)) engine=InnoDB;
create table account_tags (account_id bigint not null, tags varchar(255)) engine=InnoDB;
alter table person_account add constraint UK_t2n6 unique (accounts_id);
alter table account add constraint FKouhxsvvmmqr48rx4y7hkmhqw8 foreign key (owner_id) references person (id);
alter table account_tags add constraint FKtag foreign key (account_id) references account (id);
alter table account add column iban varchar(34) not null;
alter table account modify column currency enum ('EUR','USD','GBP','CHF') not null;
alter table account modify column kind varchar(16), add column version integer not null;
alter table person add column email varchar(320), add unique key UK_email (email(191));
alter table account alter column version set default 0;
ALTER TABLE bank.account ADD closed BIT(1) DEFAULT 0 NULL, ADD closed_at timestamp(3) NULL;
ALTER TABLE bank.person CHANGE firstName first_name VARCHAR(100);
ALTER TABLE bank.person MODIFY first_name VARCHAR(100) NOT NULL;
ALTER TABLE bank.account DROP COLUMN notes;
alter table account drop foreign key FKouhxsvvmmqr48rx4y7hkmhqw8;
alter table account drop column owner_id;
ALTER TABLE bank.hibernate_sequence RENAME bank.account_seq;
alter table account_seq modify next_val bigint not null, add primary key (next_val);
create table REVINFO (REV integer not null auto_increment, REVTSTMP bigint, primary key (REV)) engine=InnoDB;
create table account_AUD (id bigint not null, REV integer not null, REVTYPE tinyint, balance decimal(38,2), primary key (REV, id)) engine=InnoDB;
alter table account_AUD add constraint FKaud foreign key (REV) references REVINFO (REV);
create table `QRTZ_TRIGGERS` (SCHED_NAME VARCHAR(120) NOT NULL, TRIGGER_NAME VARCHAR(190) NOT NULL, TRIGGER_GROUP VARCHAR(190) NOT NULL, NEXT_FIRE_TIME BIGINT(13) NULL, PRIORITY INTEGER NULL, JOB_DATA BLOB NULL, IS_DURABLE VARCHAR(1) NOT NULL, PRIMARY KEY (SCHED_NAME,TRIGGER_NAME,TRIGGER_GROUP)) ENGINE=InnoDB;
drop table if exists account_tags;
drop table if exists person_account, QRTZ_TRIGGERS;
