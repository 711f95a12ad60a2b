"""The client for asyncio."""

import asyncio, functools, inspect

from ._client import Client

class AsyncClient:
    """The methods of Client for asyncio: each runs in a thread of asyncio's pool. records, search, stream, get_report and get_session are asynchronous generators."""

    def __init__(self, *args, **named):
        self.client = Client(*args, **named)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.client.close()

def _asynchronous(name, method):
    if name in ("records", "search", "stream", "get_report", "get_session"):
        def call(self, *order, **given):
            return _each(getattr(self.client, name), order, given)
    else:
        async def call(self, *order, **given):
            return await asyncio.to_thread(getattr(self.client, name), *order, **given)
    call = functools.wraps(method)(call)
    call.__qualname__ = f"AsyncClient.{name}"
    return call

for _name, _found in inspect.getmembers(Client, inspect.isfunction):
    if not _name.startswith("_"):
        setattr(AsyncClient, _name, _asynchronous(_name, _found))

async def _each(method, args, named):
    source, end = await asyncio.to_thread(method, *args, **named), object()
    try:
        while True:
            one = await asyncio.to_thread(next, source, end)
            if one is end:
                return
            yield one
    finally:
        try:
            source.close()
        except ValueError:  # a thread waits in it for what comes next, and lets go of it then
            pass
