
# The keys of companies that this machine trusts, which attestd trust stores, are lines
# "COMPANY SHA256:…". Who can change or replace their file could choose the keys.
MOST_KNOWN = 64 << 10  # bytes of the file

def known_file():  # its path, or None without a configuration folder
    of = os.environ.get
    if os.name == "nt":
        folder = of("AppData")
    elif sys.platform == "darwin":
        folder = of("HOME") and of("HOME") + "/Library/Application Support"
    elif of("XDG_CONFIG_HOME"):
        folder = of("XDG_CONFIG_HOME") if os.path.isabs(of("XDG_CONFIG_HOME")) else None
    else:
        folder = of("HOME") and of("HOME") + "/.config"
    return os.path.abspath(os.path.join(folder, "attestd", "trusted-keys")) if folder else None

# nobody else, root aside, can change what stands at a path, or a folder above it
def must_be_own(path, above=False, links=0):
    if os.name != "posix":  # elsewhere no mode says so
        return
    found = os.lstat(path)
    must(found.st_uid in (0, os.geteuid()), f"{path} belongs to another user")
    if stat.S_ISLNK(found.st_mode):
        must(links < 40, f"{path}: too many links")
        must_be_own(os.path.abspath(os.path.join(os.path.dirname(path), os.readlink(path))), above, links + 1)
    else:
        is_shared = found.st_mode & 0o022 and not (above and found.st_mode & stat.S_ISVTX)
        must(not is_shared, f"others can write {path} (mode {stat.S_IMODE(found.st_mode):o}), and so change which keys are trusted; chmod go-w")
    if os.path.dirname(path) != path:
        must_be_own(os.path.dirname(path), True, links)

def known_keys():  # the fingerprint of each company; raises NotUsable
    path = known_file()
    if path is None:
        return {}
    try:
        # to open a pipe would wait
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            must(stat.S_ISREG(os.fstat(file.fileno()).st_mode), f"{path} is not a regular file")
            must_be_own(path)
            source = file.read(MOST_KNOWN + 1)
        must(len(source) <= MOST_KNOWN, f"{path} has more than {MOST_KNOWN} bytes")
        return parse_known(path, source)
    except FileNotFoundError:
        return {}
    except Exception as refused:
        raise NotUsable(str(refused))

def parse_known(path, source):
    keys = {}
    for at, line in enumerate(source.split(b"\n"), 1):
        words = [word.decode("latin-1") for word in line.split()]
        if not words or words[0].startswith("#"):
            continue
        must(len(words) == 2 and company(words[0]) and is_fingerprint(words[1]),
             f"{path}: line {at} is not a company and the fingerprint of a key: {canonical(' '.join(words))}")
        must(words[0] not in keys, f"{path}: line {at}: {words[0]} has two keys; remove the one that is not the company's")
        keys[words[0]] = words[1]
    return keys

def is_fingerprint(key):
    return re.fullmatch("SHA256:[A-Za-z0-9_-]{43}", key)

class NotUsable(Exception):
    """The file of trusted keys is there, and cannot be relied on."""
