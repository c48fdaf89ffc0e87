"""Writes an export whose schema tries to run things: hostile_nsys.py OUT.sqlite"""

import sqlite3
import sys

db = sqlite3.connect(sys.argv[1])
db.executescript(
    """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1, 'gemm');
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, demangledName INTEGER,
  deviceId INTEGER GENERATED ALWAYS AS (length(zeroblob(10))) VIRTUAL, "a ""quoted"" name" INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, demangledName) VALUES (1, 2, 1);
-- Would never end.
CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start FROM n;
CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END;
CREATE VIRTUAL TABLE OSRT_API USING fts5(start, "end", globalTid, nameId);
INSERT INTO OSRT_API VALUES ('1', '2', '3', '4');
-- Has no rowid.
CREATE TABLE GPU_METRICS (timestamp INTEGER PRIMARY KEY, value REAL) WITHOUT ROWID;
"""
)
db.close()
