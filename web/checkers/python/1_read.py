def must(ok, message):  # not assert, which python3 -O leaves out
    if not ok:
        raise ValueError(message)

def read(text):  # strict JSON: no name twice, and no number that a double does not keep
    def unique(members):
        must(len(dict(members)) == len(members), "a name stands twice")
        return dict(members)
    def number(digits):
        # with any power, also one that no Decimal has
        zero = digits[-1].isdigit() and not re.search("[1-9]", re.split("[eE]", digits)[0])
        must(zero or digits[-1].isdigit() and Decimal(repr(float(digits))) == Decimal(digits), f"{digits} is not kept by a double")
        return float(digits) if re.search("[.eE]", digits) or digits == "-0" else int(digits)
    return json.loads(text, object_pairs_hook=unique, parse_int=number, parse_float=number, parse_constant=number)

# what counts outside of strings and in them
OUTSIDE, INSIDE = re.compile(rb'["{}\[\],:]'), re.compile(rb'["\\]')
WEIGHTS = {b"{": 2, b"[": 2, b":": 4, b",": 4, b"\\": 4}

# before a file is parsed: what it weighs, as the reference says, and how deep it nests
def bounded(source):
    weight, depth, at, inside = 0, 0, 0, False
    for found in iter(lambda: (INSIDE if inside else OUTSIDE).search(source, at), None):
        kind, at = found[0], found.end() + (found[0] == b"\\")
        inside ^= kind == b'"'
        weight += 2 if kind == b'"' and inside else WEIGHTS.get(kind, 0)
        depth += (kind in (b"{", b"[")) - (kind in (b"}", b"]"))
        must(weight <= 9_000_000, "it weighs more than 9000000")
        must(0 <= depth <= 160, "nested too deep")

def text_of(source):  # of a file, which is no longer and no heavier than one may be
    must(len(source) <= 64 << 20, "longer than 64 MiB")
    bounded(source)
    return source.decode()

def pieces(value):  # of the canonical form (RFC 8785), none of them long
    if type(value) is dict:
        for i, name in enumerate(sorted(value, key=lambda name: name.encode("utf-16-be"))):
            yield ",{"[i == 0]
            yield from pieces(name)
            yield ":"
            yield from pieces(value[name])
        yield "}" if value else "{}"
    elif type(value) is list:
        for i, element in enumerate(value):
            yield ",["[i == 0]
            yield from pieces(element)
        yield "]" if value else "[]"
    elif type(value) is str:
        yield '"'
        for at in range(0, len(value), 1 << 16):
            yield json.dumps(value[at:at + (1 << 16)], ensure_ascii=False)[1:-1]
        yield '"'
    else:
        yield json.dumps(value) if type(value) not in (int, float) else spelled(value)

def canonical(value):
    return "".join(pieces(value))

def digest_of_parts(*parts):  # each a text, or a list with a value; their forms are joined by |
    digest, some = hashlib.sha256(), []
    for i, part in enumerate(parts):
        for piece in itertools.chain("|" * (i > 0), [part] if type(part) is str else pieces(part[0])):
            some.append(piece)
            if len(some) == 1 << 10 or len(piece) > 1 << 10:
                digest.update("".join(some).encode())
                some = []
    digest.update("".join(some).encode())
    return digest.digest()

def spelled(value):  # a number
    # the digits that ECMAScript prints, too
    sign, digits, exponent = Decimal(repr(value + 0.0)).normalize().as_tuple()
    digits, point = "".join(map(str, digits)), len(digits) + exponent
    dot = lambda whole, rest: whole + "." + rest if rest else whole
    if 0 < point <= 21:
        return "-" * sign + dot(digits[:point].ljust(point, "0"), digits[point:])
    return "-" * sign + ("0." + "0" * -point + digits if -6 < point <= 0 else dot(digits[0], digits[1:]) + f"e{point - 1:+d}")

def exactly(value, members, optional=()):
    must(type(value) is dict and set(members) <= set(value) <= {*members, *optional}, f"not an object of exactly {members}")

def strings(*values):
    must(all(type(value) is str for value in values), "not a string")

def seconds(timestamp):  # of its one form, such as 2006-01-02T15:04:05.000Z
    must(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", timestamp), "not a timestamp")
    # year 0 is a year, too
    datetime.strptime(f"{2000 + int(timestamp[:4]) % 400}{timestamp[4:]}", "%Y-%m-%dT%H:%M:%S.%f%z")
    return datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp() if timestamp[:4] > "0001" else 0

def unbase64url(text):
    decoded = base64.urlsafe_b64decode(text + "==")
    must(base64.urlsafe_b64encode(decoded).decode().rstrip("=") == text, "not base64url")
    return decoded
