"""Every command, and an engine that has them all."""

from headrace.commands import collections, connection, headrace, keys, scripting, server, streams
from headrace.commands.declaration.table import TABLE
from headrace.commands.headrace.redriving import keep_redrives
from headrace.commands.headrace.scheduling import keep_schedules
from headrace.commands.streams import failing, retention
from headrace.engine.acl.users import Users
from headrace.engine.configuration.config import Config
from headrace.engine.engine import Engine
from headrace.engine.scripting.functions import Functions
from headrace.engine.scripting.script_host import ScriptHost
from headrace.engine.scripting.scripts import Scripts

__all__ = ["TABLE", "collections", "connection", "headrace", "keys", "make_engine", "scripting", "server", "streams"]


def make_engine(config: Config) -> Engine:
    """Make an engine with users, scripts and every command, which has no data yet."""
    engine = Engine(config, TABLE)
    script_host = ScriptHost(engine)
    engine.equip(Users(engine), script_host, Scripts(script_host), Functions(script_host))
    engine.rules.equip(retention.keep_by_time, failing.keep_by_time)
    keep_schedules(engine)
    keep_redrives(engine)
    return engine
