# What check.py makes of the texts of cases.json, before it prints them.
import json, sys
from pathlib import Path
from check import printable

json.dump([printable(case["text"]) for case in json.loads(Path("cases.json").read_text())], sys.stdout)
