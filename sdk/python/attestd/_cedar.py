"""The arguments of a call as policies see them: service/decide of the server says how, and is the
same."""
from __future__ import annotations

import json, re

_MOST = 64 << 10  # bytes of arguments, and of all pointers
_DEEPEST = 64
_ELEMENTS = 200  # of an array
_DROPPED = 500  # pointers
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?)(\d+))?", re.ASCII)

class _Number(str):
    """A number as it is spelt."""

class _Whole(Exception):
    """The arguments as a whole cannot be carried."""

def cedar_arguments(text):
    """Returns the record that policies see as context.arguments, and the JSON Pointers of what it
    leaves out. text is str or UTF-8. Values are {"long": "1"}, {"decimal": "1.5"}, {"string": s},
    {"bool": b}, {"set": [...]} and {"record": {...}}."""
    try:
        raw = text.encode() if isinstance(text, str) else bytes(text)
        if not raw:
            return {"record": {}}, []
        if len(raw) > _MOST:
            raise _Whole
        value = json.loads(raw.decode(), parse_int=_Number, parse_float=_Number, parse_constant=_refuse, object_pairs_hook=_members)
        _check(value, 0)
        if value is None:
            return {"record": {}}, []
        if not isinstance(value, tuple):
            raise _Whole
        mapper = _Mapper()
        return mapper.value(value, ""), mapper.dropped
    except (ValueError, RecursionError, _Whole):
        return {"record": {}}, [""]

def _refuse(_):
    raise _Whole

def _members(pairs):
    if len({name for name, _ in pairs}) < len(pairs):
        raise _Whole
    return tuple(pairs)  # as lists are arrays

def _check(value, depth):
    if isinstance(value, (tuple, list)):
        if depth == _DEEPEST:
            raise _Whole
        for one in value:
            if isinstance(value, tuple):
                _check(one[0], depth + 1)
                one = one[1]
            _check(one, depth + 1)
    elif isinstance(value, str):
        value.encode()  # refuses lone surrogates

class _Mapper:
    def __init__(self):
        self.dropped, self.size, self.muted = [], 0, False

    def drop(self, at):
        if self.muted:
            return
        self.size += len(at.encode())
        if len(self.dropped) == _DROPPED or self.size > _MOST:
            raise _Whole
        self.dropped.append(at)

    def value(self, value, at):
        """None where there is nothing to put into the record."""
        if isinstance(value, bool):
            return {"bool": value}
        if isinstance(value, _Number):
            carried = _number(value)
            if carried is None:
                self.drop(at)
            return carried
        if isinstance(value, str):
            return {"string": value}
        if isinstance(value, list):
            return self.array(value, at)
        if isinstance(value, tuple):
            return self.object(value, at)
        return None

    def object(self, members, at):
        record = {}
        for name, value in members:
            place = at + "/" + name.replace("~", "~0").replace("/", "~1")
            if name.startswith("__"):
                self.drop(place)
                continue
            carried = self.value(value, place)
            if carried is not None:
                record[name] = carried
        return {"record": record}

    def array(self, elements, at):
        carried, before, size = [], len(self.dropped), self.size
        for i, value in enumerate(elements[:_ELEMENTS]):
            one = self.value(value, f"{at}/{i}")
            if value is None:
                self.drop(f"{at}/{i}")
            if one is not None:
                carried.append(one)
        if len(elements) <= _ELEMENTS:
            return {"set": carried}
        del self.dropped[before:]
        self.size = size
        self.drop(at)
        return None

def _number(text):
    """A number exactly, or None."""
    sign, whole, fraction, exponent_sign, exponent_digits = _NUMBER.fullmatch(text).groups("")
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return {"long": "0"}
    exponent_digits = exponent_digits.lstrip("0")
    if len(exponent_digits) > 6:
        return None
    exponent = int(exponent_sign + (exponent_digits or "0")) + len(digits) - len(significant) - len(fraction)
    long = exponent >= 0
    if not long:
        exponent += 4
    if exponent < 0 or len(significant) + exponent > 19:
        return None
    n = int(sign + significant + "0" * exponent)
    if not -(2**63) <= n < 2**63:
        return None
    if long:
        return {"long": str(n)}
    whole, fraction = divmod(abs(n), 10_000)
    return {"decimal": f"{sign}{whole}." + f"{fraction:04}".rstrip("0")}
