from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.engine.call import Call

def expect_nodes(call: Call, stream: Stream, start: StreamID, end: StreamID, most_bytes: int) -> None: ...
