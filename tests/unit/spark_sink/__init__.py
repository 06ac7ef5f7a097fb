"""Tests of the Spark sink."""
