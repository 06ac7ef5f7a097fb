"""DML logged as statements: the tables that each one writes."""
