# prints whether check.py covers each call and refuses each text of details, as cases.json has them
import json
from check import check_details, covers, read

def refuses(text):
    try:
        check_details(read(text))
    except Exception:
        return True
    return False

with open("details.json") as file:
    cases = json.load(file)
found = []
for case in cases["covers"]:
    details = read(json.dumps(case["details"]))
    check_details(details)
    found += [covers(details, call["tool"], call["arguments"]) for call in case["calls"]]
print(json.dumps({"covers": found, "refused": [refuses(case["details"]) for case in cases["refused"]]}))
