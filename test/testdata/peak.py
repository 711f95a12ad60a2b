# Runs a command and then prints the most memory that it had, in KiB, as the last line. Its own memory is small, which a child has first: that of a
# test would count. python3 peak.py COMMAND…
import os, subprocess, sys

child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
sys.stdout.buffer.write(child.stdout.read())
peak = os.wait4(child.pid, 0)[2].ru_maxrss
print("\npeak", peak if sys.platform == "linux" else peak >> 10)
