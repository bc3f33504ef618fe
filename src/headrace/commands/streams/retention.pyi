from headrace.engine.call import Call
from headrace.engine.rules.book import StreamRules

def keep_by_time(call: Call, rules: StreamRules) -> None: ...
