"""rerank.py PROGRAM RECORDS EVERY TOP1 ALARMS: the recorded evidence of each EVERYth run ranked anew, held against a
share and a number of alarms."""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "scripts"))

from benchmark import evidence, outcomes, records

program, path = sys.argv[1:3]
every, least, most = int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
told = [outcomes.ours(record) for record in evidence.rerank(records.read(path)[::every], program)]
faults, healthy = outcomes.faults(told), outcomes.healthy(told)
first, accused = sum(t.first() for t in faults), sum(t.accused() for t in healthy)
print(f"{len(faults)} faults, {first} first; {len(healthy)} healthy, {accused} accused")
print("good enough" if first >= least * len(faults) and accused <= most else "worse than it was")
