def must(ok, message):  # not assert, which python3 -O leaves out
    if not ok:
        raise ValueError(message)

def read(text):  # strict JSON: no name twice, and no number that a double does not keep
    def unique(members):
        must(len(dict(members)) == len(members), "a name stands twice")
        return dict(members)
    def number(digits):
        zero = digits[-1].isdigit() and not re.search("[1-9]", re.split("[eE]", digits)[0])  # with any power, also one that no Decimal has
        must(zero or digits[-1].isdigit() and Decimal(repr(float(digits))) == Decimal(digits), f"{digits} is not kept by a double")
        return float(digits) if re.search("[.eE]", digits) or digits == "-0" else int(digits)
    return json.loads(text, object_pairs_hook=unique, parse_int=number, parse_float=number, parse_constant=number)

def canonical(value):  # RFC 8785
    if type(value) is dict:
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(canonical(name) + ":" + canonical(value[name]) for name in names) + "}"
    if type(value) is list:
        return "[" + ",".join(map(canonical, value)) + "]"
    if type(value) not in (int, float):
        return json.dumps(value, ensure_ascii=False)
    sign, digits, exponent = Decimal(repr(value + 0.0)).normalize().as_tuple()  # the digits that ECMAScript prints, too
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
    datetime.strptime(f"{2000 + int(timestamp[:4]) % 400}{timestamp[4:]}", "%Y-%m-%dT%H:%M:%S.%f%z")  # year 0 is a year, too
    return datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp() if timestamp[:4] > "0001" else 0

def unbase64url(text):
    decoded = base64.urlsafe_b64decode(text + "==")
    must(base64.urlsafe_b64encode(decoded).decode().rstrip("=") == text, "not base64url")
    return decoded
