from typing import final

from headrace.engine.client import Client
from headrace.engine.pubsub.monitoring import Monitors
from headrace.engine.pubsub.tracking import Tracker

@final
class Observers:
    present: bool
    @property
    def monitors(self) -> Monitors: ...
    @property
    def tracker(self) -> Tracker: ...
    def remove(self, client: Client) -> None: ...
