from typing import final

from headrace.engine.client import Client

@final
class Outbox:
    def leave_out(self, client: Client) -> None: ...
    def fail_unsent(self, text: bytes) -> None: ...
