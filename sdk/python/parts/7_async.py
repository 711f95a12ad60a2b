class AsyncClient:
    """The methods of Client for asyncio: each runs in a thread of asyncio's pool. records, search, stream and get_report are asynchronous generators."""

    def __init__(self, *args, **named):
        self.client = Client(*args, **named)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.client.close()

    def __getattr__(self, name):
        method = getattr(self.client, name)
        if name in ("records", "search", "stream", "get_report"):
            return lambda *args, **named: _each(method, args, named)
        return lambda *args, **named: asyncio.to_thread(method, *args, **named)

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
