# Works with a spool and prints what came of it: python3 waiting.py URL KEY FOLDER add N | flush |
# drain. add puts N items in it, each with an amount of 1000; drain runs the spool until it is
# empty, and attests one record after the other meanwhile.
import json, sys, threading, time
from attestd import AttestdError, Client, RefusedError, Retry, Spool

url, key, folder, command, *rest = sys.argv[1:]
client = Client(url, key, retry=Retry(times=0))
spool = Spool(folder, client)
refused, failed = [], []

def note(error):
    if isinstance(error, RefusedError):
        refused.extend(name for name, _ in error.refused)
    else:
        failed.append(str(error))

if command == "add":
    for n in range(int(rest[0])):
        spool.add("bot", "paid", {"amount": 1000, "n": n})
if command == "flush":
    try:
        spool.flush()
    except AttestdError as error:
        note(error)
if command == "drain":
    stop = threading.Event()
    running = threading.Thread(target=spool.run, args=(0.05, stop, note))
    running.start()
    while spool.pending():
        client.attest("bot", "live", None)
        time.sleep(0.2)
    stop.set()
    running.join()
print(json.dumps({"pending": spool.pending(), "refused": refused, "failed": failed}))
client.close()
