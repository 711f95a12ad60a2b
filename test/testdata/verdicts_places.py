# What check.py makes of the places of the sessions in places.json: a list with "contradiction", or the state, what was recorded although it was refused, and whether there is more of that.
import json, sys
from pathlib import Path
from check import Places

def verdict(session):
    places = Places()
    try:
        for one in session["statements"]:
            places.add(one, one["seq"], one["hash"])
    except ValueError:
        return "contradiction"
    recorded = json.dumps([list(one) for one in places.recorded], separators=(",", ":"))
    return f"{places.state()} {recorded} {str(places.is_more).lower()}"

json.dump([verdict(session) for session in json.loads(Path("places.json").read_text())], sys.stdout)
