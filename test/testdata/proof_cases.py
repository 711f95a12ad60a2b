# What check.py says of each case of proof_cases.json, and its exit status.
import contextlib, io, json, os, sys
from check import main

def came(case):
    names = [f"python_{os.getpid()}_{part}" for part in ("proof", "keys")]
    for name, part in zip(names, ("proof", "keys")):
        with open(name, "w", encoding="utf-8", newline="") as file:
            file.write(case[part])
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = main(names)
    return {"status": status, "said": said.getvalue()}

with open("proof_cases.json", encoding="utf-8") as file:
    cases = json.load(file)
json.dump([came(case) for case in cases], sys.stdout)
