from headrace.core.stream import Stream
from headrace.engine.call import Call

TOO_LARGE: bytes

def new_stream(call: Call) -> Stream: ...
def hand_over_settings(call: Call, key: bytes, stream: Stream) -> None: ...
