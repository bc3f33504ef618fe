from headrace.engine.call import Call
from headrace.engine.rules.book import GroupRules

def keep_by_time(call: Call, rules: GroupRules) -> None: ...
